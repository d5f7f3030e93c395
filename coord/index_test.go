package coord

import (
	"testing"

	"recoveryledger/coord/hour"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
)

// index returns an index entry by the coordinator over the first size entries, or over
// all that there are.
func (w *world) index(size uint64) *entry.LogIndex {
	w.t.Helper()
	tree := complete.NewTree()
	for i := range min(size, uint64(len(w.log))) {
		must(w.t, tree.Add(w.log[i].Entry))
	}
	root, err := tree.Root()
	must(w.t, err)
	return &entry.LogIndex{Header: w.linkHeader("k"), Algorithm: entry.IndexAlgorithm, Size: size, Root: root, Subjects: tree.Subjects()}
}

// linkHeader is a header without a workflow.
func (w *world) linkHeader(iss entry.Principal) entry.Header {
	h := w.header(iss)
	h.Wid = ""
	return h
}

var indexRules = []refusal{
	{"REG-4 an index by an agent", func(w *world) *entry.Entry {
		x := w.index(1)
		x.Header = w.linkHeader("a")
		return w.sign(x)
	}, entry.UnauthorizedRole, "iss"},
	{"REG-9 an index of itself", func(w *world) *entry.Entry { return w.sign(w.index(w.state.Size() + 1)) }, entry.StateConflict, "size"},
	{"REG-9 an index of no more", func(w *world) *entry.Entry {
		w.put(w.index(4))
		return w.sign(w.index(4))
	}, entry.StateConflict, "size"},
	{"REG-9 an index of less", func(w *world) *entry.Entry {
		w.put(w.index(4))
		return w.sign(w.index(3))
	}, entry.StateConflict, "size"},
}

// TestIndexEntries admits index entries that cover more and more, up to all that
// stands before them, and restores the state between them.
func TestIndexEntries(t *testing.T) {
	w := newWorld(t)
	populate(w)
	w.put(w.index(1))
	w.put(w.index(w.state.Size()))
	w.state = restored(t, w.snapshot())
	w.refuse(w.sign(w.index(w.state.Size()-1)), entry.StateConflict, "size")
	w.put(w.index(w.state.Size()))
	w.checkAll()
}

// TestIndexQuota: index entries are not refused for the coordinator's quota, and
// take nothing from it.
func TestIndexQuota(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Quotas.EntriesPerHour = 2
	w.put(p)
	for range 5 {
		w.put(w.index(w.state.Size()))
	}
	number, _ := w.state.principals.Find([]byte("k"))
	if u := w.state.usage[number]; u.entries != (hour.Count{}) {
		t.Errorf("index entries count: %+v", u.entries)
	}
	w.checkAll()
}
