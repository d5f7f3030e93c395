package audit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api/client"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// register registers entries of a site, which admits them.
func (s *site) register(t *testing.T, entries ...*entry.Entry) {
	t.Helper()
	for _, e := range entries {
		answer, err := s.log.Submit(t.Context(), e)
		must(t, err)
		if answer.Refused != nil {
			t.Fatal(answer.Refused)
		}
	}
}

// index registers the index entry over the first size entries of a site, damaged.
func (s *site) index(t *testing.T, size uint64, damage func(*entry.LogIndex)) {
	t.Helper()
	tree := complete.NewTree()
	for i := range size {
		e, err := s.log.Entry(i)
		must(t, err)
		must(t, tree.Add(e.Entry))
	}
	root, err := tree.Root()
	must(t, err)
	x := &entry.LogIndex{Header: header("coordinator", ""), Algorithm: entry.IndexAlgorithm, Size: size, Root: root, Subjects: tree.Subjects()}
	x.JTI = entry.IndexJTI(origin, size)
	if damage != nil {
		damage(x)
	}
	s.register(t, signed(newSigner("coordinator"), x))
}

// newIndexed starts a ledger with a coordinator and index entries, of which each leaves
// out some entries that the next one covers.
func newIndexed(t *testing.T, last func(*entry.LogIndex)) *site {
	t.Helper()
	s, err := openWith(10, false, time.Millisecond)
	must(t, err)
	t.Cleanup(func() { must(t, s.stop()) })
	authority, agent := newSigner("authority"), newSigner("agent")
	s.register(t, signed(authority, &entry.Agent{Header: header("authority", ""), Principal: "coordinator", Op: entry.Enrol,
		Key: newSigner("coordinator").Public(), Roles: []entry.Role{entry.RoleCoordinator}, Domain: "test", Span: entry.SpanWorkflow}))
	s.index(t, 9, nil)
	for range 20 {
		s.register(t, signed(agent, step("agent-1")))
	}
	s.index(t, 25, nil)
	s.register(t, signed(agent, step("agent-1")))
	s.index(t, 35, last)
	s.register(t, signed(agent, step("agent-1")), signed(agent, step("agent-1")))
	must(t, os.RemoveAll(s.export))
	must(t, s.publish())
	return s
}

// sources are the ways to the log of a site.
func (s *site) sources(t *testing.T) map[string]audit.Source {
	t.Helper()
	reader, err := client.New(s.url, s.root, nil)
	must(t, err)
	return map[string]audit.Source{"export": audit.Dir{Files: os.DirFS(s.export)}, "server": reader}
}

// first yields the first entries of a log.
func (s *site) first(t *testing.T, size uint64) iter.Seq2[entry.Registered, error] {
	t.Helper()
	return func(yield func(entry.Registered, error) bool) {
		for i := range size {
			e, err := s.log.Entry(i)
			must(t, err)
			if !yield(*e, nil) {
				return
			}
		}
	}
}

func (s *site) exported(t *testing.T) verify.SignedHead {
	t.Helper()
	head, err := audit.Dir{Files: os.DirFS(s.export)}.Head(s.root)
	must(t, err)
	return head
}

// TestAuditComputesEveryRoot: right index entries pass, wherever an audit stopped and
// went on, and a wrong one ends it with evidence that others check offline.
func TestAuditComputesEveryRoot(t *testing.T) {
	good := newIndexed(t, nil)
	head := good.exported(t)
	for name, source := range good.sources(t) {
		follower, report, err := audit.Run(t.Context(), source, good.root, head, audit.Config{})
		must(t, err)
		if report.Size != head.Size {
			t.Errorf("%s: size %d, want %d", name, report.Size, head.Size)
		}
		var whole bytes.Buffer
		must(t, follower.Snapshot(&whole))
		for _, stop := range []uint64{5, 12, 25, 34, 37} { // before, between and behind index entries
			begun := audit.NewFollower(origin)
			if report, err := begun.Follow(t.Context(), good.first(t, stop), nil); err != nil || report.Finding != nil {
				t.Fatalf("to %d: %v, %v", stop, err, report.Finding)
			}
			var at, again bytes.Buffer
			must(t, begun.Snapshot(&at))
			gone := audit.NewFollower(origin)
			must(t, gone.Restore(&at))
			gone, _, err := audit.Run(t.Context(), source, good.root, head, audit.Config{From: gone})
			must(t, err)
			must(t, gone.Snapshot(&again))
			if !bytes.Equal(whole.Bytes(), again.Bytes()) {
				t.Errorf("%s: stopped at %d, it comes to another fold", name, stop)
			}
		}
	}
	for name, damage := range map[string]func(*entry.LogIndex){
		"root":     func(x *entry.LogIndex) { x.Root[7] ^= 4 },
		"subjects": func(x *entry.LogIndex) { x.Subjects++ },
	} {
		bad := newIndexed(t, damage)
		for from, source := range bad.sources(t) {
			_, _, err := audit.Run(t.Context(), source, bad.root, bad.exported(t), audit.Config{})
			wantIndexError(t, bad, name+" from "+from, err)
		}
	}
}

func wantIndexError(t *testing.T, s *site, name string, err error) {
	t.Helper()
	found, ok := errors.AsType[*audit.IndexError](err)
	if !ok || found.Wrong.Index != 36 || found.Wrong.Size != 35 {
		t.Fatalf("%s: %v", name, err)
	}
	data, err := json.Marshal(found.Evidence())
	must(t, err)
	var m verify.Material
	must(t, m.Add("evidence.json", data))
	report, err := s.root.Verify(m)
	must(t, err)
	if len(report.Missing) > 0 || !strings.Contains(strings.Join(report.NotChecked, "\n"), "that the first 35 entries give the root "+found.Wrong.Root.String()) {
		t.Errorf("%s: missing %q, not checked %q", name, report.Missing, report.NotChecked)
	}
	for _, e := range report.Entries {
		if !e.Signed {
			t.Errorf("%s: entry %d: nobody is shown to have signed it", name, e.Index)
		}
	}
}

// TestAuditReadsAgainWhatItNeeds: a source that serves other entries the second time
// convicts nobody of a wrong index.
func TestAuditReadsAgainWhatItNeeds(t *testing.T) {
	s := newIndexed(t, nil)
	begun := audit.NewFollower(origin)
	_, err := begun.Follow(t.Context(), s.first(t, 34), nil)
	must(t, err)
	var at bytes.Buffer
	must(t, begun.Snapshot(&at))
	must(t, begun.Restore(&at))
	other := otherTwice{Source: audit.Dir{Files: os.DirFS(s.export)}}
	_, _, err = audit.Run(t.Context(), other, s.root, s.exported(t), audit.Config{From: begun})
	if found, ok := errors.AsType[*audit.RootError](err); !ok || !strings.Contains(found.Detail, "entry 25 was served twice") {
		t.Errorf("error %v", err)
	}
}

// otherTwice serves entries 25 and 26 in each other's place.
type otherTwice struct{ audit.Source }

func (o otherTwice) Tile(ctx context.Context, tile merkle.Tile) ([]byte, error) {
	data, err := o.Source.Tile(ctx, tile)
	if err != nil || tile.Index > 0 || !tile.Entries {
		return data, err
	}
	var leaves [][]byte
	for len(data) > 0 {
		var leaf []byte
		if leaf, data, err = merkle.CutLeaf(data); err != nil {
			return nil, err
		}
		leaves = append(leaves, leaf)
	}
	leaves[25], leaves[26] = leaves[26], leaves[25]
	var out []byte
	for _, leaf := range leaves {
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(leaf))), leaf...)
	}
	return out, nil
}

// TestKeptFoldKeepsTheIndex in its file.
func TestKeptFoldKeepsTheIndex(t *testing.T) {
	s := newIndexed(t, nil)
	source, head := s.sources(t)["export"], s.exported(t)
	follower, _, err := audit.Run(t.Context(), source, s.root, head, audit.Config{})
	must(t, err)
	place := audit.Place{Path: filepath.Join(t.TempDir(), "fold"), Root: s.root}
	must(t, place.Save(&audit.Kept{Follower: follower, Head: head}))
	kept, err := place.Load()
	must(t, err)
	s.index(t, s.log.Head().Size, nil)
	must(t, os.RemoveAll(s.export))
	must(t, s.publish())
	_, _, err = audit.Run(t.Context(), s.sources(t)["export"], s.root, s.exported(t), audit.Config{From: kept.Follower})
	must(t, err)
}
