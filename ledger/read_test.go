package ledger_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

func TestWhatIsNotThere(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	r.add(3)
	for name, err := range map[string]error{
		"entry":             second(r.Entry(3)),
		"receipt":           second(r.Receipt(3)),
		"receipt far away":  second(r.Receipt(math.MaxUint64)),
		"inclusion":         second(r.Inclusion(3, 3)),
		"inclusion, larger": second(r.Inclusion(1, 4)),
		"consistency":       second(r.Consistency(1, 4)),
		"consistency, back": second(r.Consistency(2, 1)),
	} {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, sizes := range [][2]uint64{{0, 0}, {0, 3}, {3, 3}, {2, 3}} {
		if _, err := r.Consistency(sizes[0], sizes[1]); err != nil {
			t.Errorf("consistency of %v: %v", sizes, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestProofsOfAllPairs checks every inclusion and consistency proof of a small
// log against a reference.
func TestProofsOfAllPairs(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	r.bulk(40)
	leaves := r.leafHashes()
	heads := []merkle.Head{merkle.EmptyHead()}
	for size := 1; size <= len(leaves); size++ {
		heads = append(heads, merkle.Head{Size: uint64(size), Root: referenceRoot(leaves[:size])})
	}
	for newer := range uint64(41) {
		for older := range newer + 1 {
			path, err := r.Consistency(older, newer)
			must(t, err)
			must(t, merkle.CheckConsistency(heads[older], heads[newer], path))
		}
		for index := range newer {
			path, err := r.Inclusion(index, newer)
			must(t, err)
			must(t, merkle.CheckInclusion(index, leaves[index], heads[newer], path))
		}
	}
}

func TestFind(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	r.add(5)
	_, err := r.Submit(t.Context(), newTaskEntry(t), newEntry(t), newTaskEntry(t), newTaskEntry(t))
	must(t, err)
	task := ledger.Query{Index: entry.ByTask, Value: "operator#task"}
	for desc, c := range map[string]struct {
		change func(q *ledger.Query)
		want   []uint64
	}{
		"all":                 {func(*ledger.Query) {}, []uint64{5, 7, 8}},
		"newest first":        {func(q *ledger.Query) { q.Newest = true }, []uint64{8, 7, 5}},
		"newest one":          {func(q *ledger.Query) { q.Newest, q.Limit = true, 1 }, []uint64{8}},
		"oldest two":          {func(q *ledger.Query) { q.Limit = 2 }, []uint64{5, 7}},
		"from":                {func(q *ledger.Query) { q.From = 6 }, []uint64{7, 8}},
		"to":                  {func(q *ledger.Query) { q.To = 8 }, []uint64{5, 7}},
		"between, from newer": {func(q *ledger.Query) { q.From, q.To, q.Newest = 5, 8, true }, []uint64{7, 5}},
		"beyond the end":      {func(q *ledger.Query) { q.From, q.To = 9, 100 }, nil},
		"turned around":       {func(q *ledger.Query) { q.From, q.To = 8, 5 }, nil},
		"by kind":             {func(q *ledger.Query) { q.Index, q.Value, q.From = entry.ByKind, "execution", 6 }, []uint64{6, 7, 8}},
		"another value":       {func(q *ledger.Query) { q.Value = "operator#tas" }, nil},
		"a longer value":      {func(q *ledger.Query) { q.Value = "operator#task\x00" }, nil},
		"another index":       {func(q *ledger.Query) { q.Index = entry.ByAgent }, nil},
	} {
		q := task
		c.change(&q)
		found, err := r.Find(q)
		must(t, err)
		if !slices.Equal(found, c.want) {
			t.Errorf("%s: found %v, want %v", desc, found, c.want)
		}
	}
}

// A value with a NUL begins like the keys of another: nothing of those is found.
// A key among those of a value that is of none is damage.
func TestFindOfAValueThatNothingHas(t *testing.T) {
	disk := vfs.NewMem()
	r := start(t, "log", config(t, disk))
	r.add(2)
	r.bulk(300) // from size 256 on, the key of entry 1 lies between those that "execution\x00" would have
	for _, value := range []string{"", "\x00", "execution\x00", "execution\x00\x00\x00", "execution\x00\x00\x00\x00\x00\x00\x00\x00"} {
		for _, newest := range []bool{false, true} {
			found, err := r.Find(ledger.Query{Index: entry.ByKind, Value: value, Newest: newest})
			if len(found) > 0 || err != nil {
				t.Errorf("%q: found %v, %v", value, found, err)
			}
		}
	}
	r.stop()

	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	foreign := append(ledger.TagKey(entry.Tag{Index: entry.ByKind, Value: "execution"}, 1), 0)
	must(t, db.Set(foreign, nil, pebble.Sync))
	must(t, db.Close())
	l, err := ledger.Open("log", config(t, disk))
	must(t, err)
	for _, newest := range []bool{false, true} {
		found, err := l.Find(ledger.Query{Index: entry.ByKind, Value: "execution", Newest: newest})
		if len(found) > 0 || !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("with a foreign key: found %v, %v", found, err)
		}
	}
	must(t, l.Close())
}

// TestFindAcrossCommits compares every answer of an index with the entries, of a
// log whose commits hold none to all of its entries with the tag.
func TestFindAcrossCommits(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	var tasks []uint64
	size := uint64(0)
	for _, commit := range []string{"t", "", "tt", "ot", "oo", "tot", "to", "t", "otto"} {
		var batch []*entry.Entry
		for _, what := range commit {
			if what == 't' {
				batch = append(batch, newTaskEntry(t))
				tasks = append(tasks, size)
			} else {
				batch = append(batch, newEntry(t))
			}
			size++
		}
		_, err := r.Submit(t.Context(), batch...)
		must(t, err)
	}
	for from := range size {
		for to := from + 1; to <= size; to++ {
			var all []uint64
			for _, index := range tasks {
				if from <= index && index < to {
					all = append(all, index)
				}
			}
			for _, newest := range []bool{false, true} {
				for limit := range len(all) + 2 {
					want := slices.Clone(all)
					if newest {
						slices.Reverse(want)
					}
					if limit > 0 {
						want = want[:min(limit, len(want))]
					}
					q := ledger.Query{Index: entry.ByTask, Value: "operator#task", From: from, To: to, Limit: limit, Newest: newest}
					found, err := r.Find(q)
					must(t, err)
					if !slices.Equal(found, want) {
						t.Fatalf("%+v: found %v, want %v", q, found, want)
					}
				}
			}
		}
	}
}

func TestFirstAt(t *testing.T) {
	c := newClocks()
	r := start(t, "log", c.on(config(t, vfs.NewMem())))
	began := c.wall.UnixMilli()
	if index, err := r.FirstAt(began); err != nil || index != 0 {
		t.Errorf("empty log: %d, %v", index, err)
	}
	for range 5 { // entries 0 and 1 at +0, 2 and 3 at +10 ms, …
		r.add(2)
		c.pass(10 * time.Millisecond)
	}
	for at, want := range map[int64]uint64{0: 0, began - 1: 0, began: 0, began + 1: 2, began + 10: 2, began + 39: 8, began + 40: 8, began + 41: 10, math.MaxInt64: 10} {
		if index, err := r.FirstAt(at); err != nil || index != want {
			t.Errorf("%+d ms: index %d, %v, want %d", at-began, index, err, want)
		}
	}
}

func TestEntriesFromTo(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	r.add(5)
	for _, c := range []struct {
		from, to uint64
		want     []uint64
	}{{0, 5, []uint64{0, 1, 2, 3, 4}}, {3, 100, []uint64{3, 4}}, {2, 3, []uint64{2}}, {3, 3, nil}, {4, 2, nil}, {9, 12, nil}} {
		var got []uint64
		for logged, err := range r.Entries(t.Context(), c.from, c.to) {
			must(t, err)
			got = append(got, logged.Index)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d to %d: %v, want %v", c.from, c.to, got, c.want)
		}
	}
	for _, err := range r.Entries(t.Context(), 0, 5) {
		must(t, err)
		break // and the iterator is closed: the log closes
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	read := 0
	for _, err := range r.Entries(ctx, 0, 5) {
		last = err
		read++
		cancel()
	}
	if !errors.Is(last, context.Canceled) || read != 2 {
		t.Errorf("cancelled: %d entries, %v", read, last)
	}
}

func TestWait(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	r.add(1)
	must(t, r.Wait(t.Context(), 1))
	done := make(chan error)
	go func() { done <- r.Wait(t.Context(), 4) }()
	r.add(3)
	must(t, <-done)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { done <- r.Wait(ctx, 5) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
