package client_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// signs is all keys, until a policy names the next one alone.
func (id *identity) signs(fold ledger.Fold, all []ledger.Key) []ledger.Key {
	state, ok := fold.(*coordinator.Fold)
	if named := state.Chain().LedgerKeys(); !ok || len(named) == 0 || slices.Contains(named, id.keys.VerifierKeys[0]) {
		return all
	}
	return all[1:]
}

// renames applies a policy that names the ledger's keys.
func (n *node) renames(keys ...string) {
	n.t.Helper()
	c := n.client(nil)
	_, err := c.Receipt(n.t.Context(), 0) // the published head may be older
	must(n.t, err)
	chain, err := c.Chain(n.t.Context())
	must(n.t, err)
	inForce, previous := chain.Policy()
	next := *inForce
	next.Header, next.Previous, next.LedgerKeys = header("authority", ""), &previous, keys
	n.add(sign(n.t, n.authority, &next))
}

func startRotation(t *testing.T) *node {
	t.Helper()
	id := newIdentity(t)
	var err error
	id.next, err = keys.GenerateLedger(t.TempDir(), origin, nil)
	must(t, err)
	return id.start(t, nil)
}

func wantRetired(t *testing.T, err error) {
	t.Helper()
	step, ok := errors.AsType[*verify.StepError](err)
	if !ok || step.Step != verify.StepHead || !strings.Contains(err.Error(), "TRU-5") {
		t.Fatalf("error %v, want step 1 by TRU-5", err)
	}
}

// A client that reads while both keys are in force follows the change, by itself
// and durably; one that did not needs the new root.
func TestTheLedgersKeyIsFollowed(t *testing.T) {
	n := startRotation(t)
	old, next := n.keys.VerifierKeys, n.next.VerifierKeys
	pinned := n.root()
	var kept []verify.Root
	c := n.client(&client.Config{Attempts: 1, Keep: func(root verify.Root) error {
		kept = append(kept, root)
		return nil
	}})
	_, err := c.Receipt(t.Context(), 0)
	must(t, err)
	if len(kept) != 0 || c.Root().Since != 0 {
		t.Fatalf("it follows what no policy says: %+v", kept)
	}
	n.renames(slices.Concat(old[:], next[:])...)
	both, err := c.Receipt(t.Context(), 1)
	must(t, err)
	if len(kept) != 1 || c.Root().Since != 1 {
		t.Fatalf("kept %+v", kept)
	}
	late := n.client(&client.Config{Attempts: 1})
	n.renames(next[:]...)
	n.add(n.enrol("agent-1", n.agent))
	_, err = c.Submit(t.Context(), n.good())
	must(t, err)
	if len(kept) != 2 || kept[1].Since != 2 || !slices.Equal(kept[1].LedgerKeys, next[:]) || kept[1].Retired[0] != (verify.RetiredKey{Key: old[0], Size: 2}) {
		t.Fatalf("kept %+v", kept)
	}
	_, err = c.Entry(t.Context(), 1)
	must(t, err)
	_, err = kept[1].Verify(verify.Material{Receipts: []verify.Receipt{*both}})
	must(t, err)

	_, err = late.Receipt(t.Context(), 0)
	wantRetired(t, err)
	for name, root := range map[string]verify.Root{"kept": kept[1], "half-way": kept[0]} {
		again, err := client.New(n.url, root, &client.Config{Attempts: 1, Accepted: both.Head})
		must(t, err)
		if _, err := again.Receipt(t.Context(), 0); err != nil || again.Root().Since != 2 {
			t.Errorf("%s: since %d, error %v", name, again.Root().Since, err)
		}
	}
	if _, err := client.New(n.url, pinned, &client.Config{Accepted: c.Accepted().Note}); err == nil {
		t.Error("the pinned root takes a head by the next key alone")
	}
}

// What cannot be kept is not followed: a later life would not know it.
func TestARootThatIsNotKeptIsNotFollowed(t *testing.T) {
	n := startRotation(t)
	failed := errors.New("the disk is full")
	c := n.client(&client.Config{Attempts: 1, Keep: func(verify.Root) error { return failed }})
	_, err := c.Receipt(t.Context(), 0)
	must(t, err)
	n.renames(n.keys.VerifierKeys[0], n.next.VerifierKeys[0])
	_, err = c.Receipt(t.Context(), 1) // good by the root as it is
	must(t, err)
	if _, err := c.Chain(t.Context()); !errors.Is(err, failed) || c.Root().Since != 0 {
		t.Fatalf("since %d, error %v", c.Root().Since, err)
	}
}

// TestTheRetiredKeyIsStolen is a ledger of a thief of the old key. Who has
// followed refuses its heads; who has not refuses them once they show the policy.
func TestTheRetiredKeyIsStolen(t *testing.T) {
	n := startRotation(t)
	old, next := n.keys.VerifierKeys[0], n.next.VerifierKeys[0]
	thief := (&identity{keys: n.keys, authority: n.authority, agent: n.agent, genesis: n.genesis}).start(t, nil)
	c := n.client(&client.Config{Attempts: 1})
	_, err := c.Receipt(t.Context(), 0)
	must(t, err)
	n.renames(old, next)
	_, err = c.Receipt(t.Context(), 0)
	must(t, err)
	n.renames(next)
	_, err = c.Receipt(t.Context(), 0)
	must(t, err)
	for i := range 3 {
		thief.add(thief.enrol(entry.Principal("agent-"+strconv.Itoa(i)), newSigner(t)))
	}
	n.pass(thief.handler.ServeHTTP)
	_, err = c.Receipt(t.Context(), 0)
	wantRetired(t, err)

	thief.renames(old, next)
	late := thief.client(&client.Config{Attempts: 1})
	_, err = late.Receipt(t.Context(), 0)
	must(t, err)
	_, err = late.Chain(t.Context())
	must(t, err) // both are in force, the old one may still sign
	thief.renames(next)
	_, err = late.Receipt(t.Context(), 0)
	wantRetired(t, err)
	_, err = late.Chain(t.Context())
	wantRetired(t, err)
}
