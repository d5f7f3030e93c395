package audit

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/testdata/foldlog"
)

// TestNoteRules: the newest policy of a log has the rules in force. A policy without rules has the
// built-in ones, and so has a policy whose rules do not compile. The leaves pass as they are, and
// so does what is no entry.
func TestNoteRules(t *testing.T) {
	other, err := recovery.Load("policy", []byte(strings.Replace(string(recovery.DefaultDocument()), "attempts: 6", "attempts: 5", 1)))
	must(t, err)
	l := foldlog.New(t)
	rules := func() (p *recovery.Policy) {
		leaves := [][]byte{[]byte("no entry")}
		for _, e := range l.Entries {
			leaves = append(leaves, e.AppendLeaf(nil))
		}
		var passed [][]byte
		for leaf, err := range NoteRules(func(yield func([]byte, error) bool) {
			for _, leaf := range leaves {
				if !yield(leaf, nil) {
					return
				}
			}
		}, &p) {
			must(t, err)
			passed = append(passed, leaf)
		}
		if !slices.EqualFunc(passed, leaves, slices.Equal) {
			t.Error("other leaves pass")
		}
		return p
	}
	if p := rules(); p.Hash() != recovery.Default().Hash() {
		t.Error("a policy without rules has other rules than the built-in ones")
	}
	inForce, previous := l.State.Chain().Policy()
	next := *inForce
	next.Recovery, next.Previous = other.JSON(), &previous
	l.Put("root", &next)
	if p := rules(); p.Hash() != other.Hash() {
		t.Error("the rules are not those of the newest policy")
	}
	_, previous = l.State.Chain().Policy()
	broken := *inForce
	broken.Recovery, broken.Previous = []byte(`{"rules":[]}`), &previous
	l.Put("root", &broken)
	if p := rules(); p.Hash() != recovery.Default().Hash() {
		t.Error("a policy whose rules do not compile has other rules than the built-in ones")
	}
}
