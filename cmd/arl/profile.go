package main

import "recoveryledger/cmd/arl/access"

// noteSeen writes the accepted head of this machine into the pinned root of the profile. A machine
// that gets this root begins with that head.
func (a *app) noteSeen(c *access.Connection) error {
	accepted := c.Client.Accepted()
	if c.Profile == nil || accepted.Note == "" {
		return nil
	}
	p := *c.Profile
	p.Root = p.Root.Advance(c.Client.Root())
	p.Root.Seen = accepted.Note
	if err := a.trust().Save(&p); err != nil {
		return err
	}
	a.Tell("the pinned root of profile %s carries the tree head of size %d now: a machine that has no root of this ledger yet needs it (arl root show --out FILE)", p.Name, accepted.Size)
	return nil
}
