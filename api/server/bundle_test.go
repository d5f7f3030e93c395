package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// accepted is what an agent keeps, and by when it knows the log.
type keeper struct {
	*panel
	bundle.Accepted
}

// keeps returns the state of an agent that has accepted nothing yet.
func (c *panel) keeps(agent entry.Principal) *keeper {
	c.t.Helper()
	return &keeper{c, bundle.Accepted{Root: c.root(), Agent: agent}}
}

// fetch gets a bundle and where it goes on.
func (c *panel) fetch(path string) (*bundle.Bundle, string) {
	c.t.Helper()
	a := c.get(path)
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != api.MediaJSON {
		c.t.Fatalf("GET %s: %s: %s", path, a.Status, a.body)
	}
	b, err := bundle.Decode(a.body)
	must(c.t, err)
	next, _, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("Link"), "<"), ">;")
	return b, next
}

// told gets all bundles of an incident, or all news, and takes them up. It wants
// each to be accepted, with every member, and returns the commands.
func (k *keeper) told(incident uint64) (commands []bundle.Command) {
	k.t.Helper()
	path := fmt.Sprintf("/v1/incidents/%d/bundle?%s", incident, url.Values{"agent": {string(k.Agent)}, "from": {fmt.Sprint(k.Size())},
		"absences": {fmt.Sprint(k.index != nil)}}.Encode())
	if incident == 0 {
		path = fmt.Sprintf("/v1/agents/%s/news?from=%d", k.Agent, k.Size())
	}
	for path != "" {
		var b *bundle.Bundle
		b, path = k.fetch(path)
		v, err := b.Check(k.Accepted, k.log.Now())
		k.Accepted = v.Next
		if err != nil {
			k.t.Fatalf("%s, incident %d from %d: %v\n%+v\n%+v", k.Agent, incident, b.From, err, b.Members, b.Steps)
		}
		if proves := slices.ContainsFunc(v.Checked, func(p bundle.Passed) bool { return p.Rule == "ABS-4" }); b.Decision != 0 && proves != (k.index != nil) {
			k.t.Fatalf("%s, incident %d from %d: proof of absences %t", k.Agent, incident, b.From, proves)
		}
		for _, command := range v.Commands {
			if command.Refused != nil {
				k.t.Fatalf("%s, incident %d from %d: %v\n%+v", k.Agent, incident, b.From, command.Refused, b.Steps)
			}
		}
		commands = append(commands, v.Commands...)
	}
	return commands
}

// What an agent is shown over HTTP tells it its members, and nobody else's.
func TestBundle(t *testing.T) { withAndWithout(t, testBundle) }

func testBundle(t *testing.T, c *panel) {
	t.Helper()
	c.pipeline()
	id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
	two := c.keeps("agent-2")
	if before := two.told(id); len(before) != 0 {
		t.Fatalf("%+v", before)
	}
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	for agent, want := range map[entry.Principal]string{"agent-1": "agent-1#make none", "agent-2": "agent-2#pay compensate, agent-2#build none",
		"agent-3": "agent-3#look none", "monitor-1": ""} {
		var got []string
		for _, command := range c.keeps(agent).told(id) {
			got = append(got, fmt.Sprintf("%s %s", command.Exec, command.Method))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %v, want %s", agent, got, want)
		}
	}
	if later := two.told(id); len(later) != 2 || !later[0].Released {
		t.Fatalf("%+v", later)
	}
}
