package coordinator

import (
	"sync"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// SentBundles remember when bundles of commands were last sent, since the process began. No entry
// says so. A request for a bundle names the agent and proves nothing: whoever names an agent gets
// the agent's bundles. There is at most one time for each agent of each incident of the log.
type SentBundles struct {
	now   func() time.Time
	since int64 // Unix milliseconds

	lock sync.Mutex
	at   map[sentBundle]int64 // Unix milliseconds
}

// sentBundle is which bundle was sent.
type sentBundle struct {
	agent    entry.Principal
	incident uint64
}

func newSentBundles() *SentBundles {
	return &SentBundles{now: time.Now, since: time.Now().UnixMilli(), at: map[sentBundle]int64{}}
}

// SentBundles returns what the process knows of the bundles that it sent.
func (c *Replica) SentBundles() *SentBundles { return c.sent }

// Note notes that the bundle of an agent's command in an incident is sent now.
func (b *SentBundles) Note(agent entry.Principal, incident uint64) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.at[sentBundle{agent, incident}] = b.now().UnixMilli()
}

// Tell completes the commands of an agent: when each bundle was last sent, and since when that is
// remembered.
func (b *SentBundles) Tell(c *api.Commands) {
	b.lock.Lock()
	defer b.lock.Unlock()
	c.Since = b.since
	for i := range c.Commands {
		c.Commands[i].BundleAt = b.at[sentBundle{c.Agent, c.Commands[i].Incident}]
	}
}
