package sound_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/sound"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
)

// scene is a log with a genesis, and the keys of its ledger.
type scene struct {
	*testlog.Log
	authority testlog.Key
	own       sound.Own // with the pinned key and the next one
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Log: testlog.New(t), authority: testlog.NewKey(t, "authority", "authority")}
	s.Add(s.authority.Sign(t, s.Policy(s.authority, s.authority)))
	_, next := testlog.LedgerKey(t, testlog.Origin, "next")
	s.own.Keys = [][2]string{{s.Root.LedgerKeys[0], "pinned ML-DSA-44"}, {next, "next ML-DSA-44"}}
	return s
}

// policy returns the next policy. It names keys of the ledger.
func (s *scene) policy(t *testing.T, keys ...string) *entry.Policy {
	t.Helper()
	_, inForce := s.Chain().Policy()
	p := s.Policy(s.authority, s.authority)
	p.Previous, p.LedgerKeys = &inForce, keys
	return p
}

func wantRefusal(t *testing.T, err error, field, detail string) {
	t.Helper()
	var refusal *entry.Refusal
	if !errors.As(err, &refusal) || refusal.Problem != entry.StateConflict || refusal.Field != field || !strings.Contains(refusal.Detail, detail) {
		t.Errorf("%v, want a state conflict of %s: %s", err, field, detail)
	}
}

// TestOwnKeys: a policy names keys that the ledger has, and the first one names the pinned key.
func TestOwnKeys(t *testing.T) {
	s := newScene(t)
	pinned, next := s.own.Keys[0][0], s.own.Keys[1][0]
	_, foreign := testlog.LedgerKey(t, testlog.Origin, "foreign")
	admit := func(keys ...string) error { return s.own.Admit(s.Chain(), s.authority.Sign(t, s.policy(t, keys...))) }
	for _, keys := range [][]string{nil, {pinned}, {pinned, next}, {pinned, "next ML-DSA-44"}} {
		if err := admit(keys...); err != nil {
			t.Errorf("%q: %v", keys, err)
		}
	}
	wantRefusal(t, admit(pinned, foreign), "ledger_keys[1]", "is not a key that this ledger signs with")
	wantRefusal(t, admit(next), "ledger_keys", "verifiers have pinned it")
	if got := s.own.InForce(s.Chain()); got != 0 {
		t.Errorf("key %d signs before a policy names one", got)
	}
	both := s.authority.Sign(t, s.policy(t, pinned, next))
	if got := s.own.NewKeys(s.Chain(), both); !slices.Equal(got, []string{next}) {
		t.Errorf("new are %q", got)
	}
	s.Add(both)
	if got := s.own.NewKeys(s.Chain(), both); len(got) != 0 {
		t.Errorf("new are %q, though a policy names both", got)
	}
	alone := s.authority.Sign(t, s.policy(t, next))
	if err := s.own.Admit(s.Chain(), alone); err != nil {
		t.Errorf("the next key alone, after both: %v", err)
	}
	s.Add(alone)
	if got := s.own.InForce(s.Chain()); got != 1 {
		t.Errorf("key %d signs, want the next one", got)
	}
	if old := (sound.Own{Keys: s.own.Keys[:1]}); old.InForce(s.Chain()) != -1 {
		t.Error("a ledger without the key of the policy signs")
	}
}

// index takes one root.
type index struct{ root merkle.Hash }

func (i index) Admit(x *entry.LogIndex) error {
	if x.Root != i.root {
		return entry.Refuse(entry.StateConflict, "root", "another root")
	}
	return nil
}

// TestOwnIndex: without an index no policy requires one, and no index entry is the ledger's.
func TestOwnIndex(t *testing.T) {
	s, mineRoot := newScene(t), merkle.Hash{1}
	required := s.policy(t)
	required.Index = &entry.IndexPolicy{Required: true}
	policy := &entry.Entry{Kind: entry.KindPolicy, Body: required}
	mine := &entry.Entry{Kind: entry.KindIndex, Body: &entry.LogIndex{Root: mineRoot}}
	other := &entry.Entry{Kind: entry.KindIndex, Body: &entry.LogIndex{Root: merkle.Hash{2}}}
	wantRefusal(t, s.own.Admit(s.Chain(), policy), "index.required", "keeps no index")
	wantRefusal(t, s.own.Admit(s.Chain(), mine), "root", "keeps no index")
	s.own.Index = index{mineRoot}
	for _, e := range []*entry.Entry{policy, mine, s.authority.Sign(t, s.Execution(s.authority))} {
		if err := s.own.Admit(s.Chain(), e); err != nil {
			t.Errorf("%s: %v", e.Kind, err)
		}
	}
	wantRefusal(t, s.own.Admit(s.Chain(), other), "root", "another root")
}

// TestSigned: every voter of a cluster signs with a new key, and says so.
func TestSigned(t *testing.T) {
	says := func(keys ...string) func() ([]string, error) { return func() ([]string, error) { return keys, nil } }
	silent := func() ([]string, error) { return nil, errors.New("no answer") }
	for _, c := range []struct {
		name   string
		peers  []sound.Peer
		detail string // empty: taken
	}{
		{"no other node", nil, ""},
		{"all voters", []sound.Peer{{Name: "n2", Voter: true, Keys: says("old", "new")}}, ""},
		{"one without a vote", []sound.Peer{{Name: "n2", Keys: silent}}, ""},
		{"a voter without the key", []sound.Peer{{Name: "n2", Voter: true, Keys: says("old", "new")}, {Name: "n3", Voter: true, Keys: says("old")}}, "node n3 does not sign with"},
		{"a voter that does not answer", []sound.Peer{{Name: "n2", Voter: true, Keys: silent}}, "node n2 does not say"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := sound.Signed([]string{"new"}, c.peers)
			if c.detail != "" {
				wantRefusal(t, err, "ledger_keys", c.detail)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
