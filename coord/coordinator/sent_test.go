package coordinator_test

import (
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/coord/coordinator"
)

// TestSentBundles tells of what was sent to that agent for that incident, and since when.
func TestSentBundles(t *testing.T) {
	before := time.Now().UnixMilli()
	sent := coordinator.New("ledger.example/sent", nil).SentBundles()
	sent.Note("a", 7)
	sent.Note("b", 9)
	after := time.Now().UnixMilli()
	c := &api.Commands{Agent: "a", Commands: []api.Command{{Incident: 7}, {Incident: 9}}}
	sent.Tell(c)
	if at := c.Commands[0].BundleAt; at < before || at > after || c.Commands[1].BundleAt != 0 || c.Since < before || c.Since > at {
		t.Errorf("%+v, between %d and %d", c, before, after)
	}
}
