package mcp

import "time"

// Tighten changes the limits of the journal: the bytes of no use that it may have, and the size
// from which on it takes no call with a compensation. Below 0, slack has every call replace the
// file.
func (p *Proxy) Tighten(slack, most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal.slack, p.journal.most = slack, most
}

// Age makes it longer ago that the calls have ended.
func (p *Proxy) Age(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.calls {
		if k.Ended > 0 {
			k.Ended -= by.Milliseconds()
		}
	}
}
