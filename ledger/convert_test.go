package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
)

// TestConvert makes a single ledger's database that of a node and back. Each form opens only as
// what it is, the entries stay, and a database of one cluster is not taken for that of another.
func TestConvert(t *testing.T) {
	disk := vfs.NewMem()
	single := func() *ledger.Config { return config(t, disk) }
	of := func(incarnation byte) *ledger.Config {
		c := single()
		c.Cluster = &ledger.Cluster{Member: agreement.Member{Incarnation: agreement.Incarnation{incarnation}}}
		return c
	}
	if last, err := ledger.Convert("nowhere", of(1)); last != nil || err != nil {
		t.Errorf("no database: %v, %v", last, err)
	}
	r := start(t, "db", single())
	r.add(3)
	r.add(2)
	r.stop()
	for range 2 { // it may be done again
		last, err := ledger.Convert("db", of(1))
		must(t, err)
		if last.Size != 5 || last.Seq == 0 {
			t.Errorf("the last batch is %+v", last)
		}
	}
	if _, err := ledger.Open("db", single()); !errors.Is(err, ledger.ErrFormat) {
		t.Errorf("a node's database opens as a single ledger: %v", err)
	}
	if _, err := ledger.Convert("db", of(2)); !errors.Is(err, ledger.ErrFormat) {
		t.Errorf("it becomes that of another cluster: %v", err)
	}
	_, err := ledger.Convert("db", single())
	must(t, err)
	r = start(t, "db", single())
	r.add(1)
	r.checkAll()
	if r.Size() != 6 {
		t.Errorf("%d entries", r.Size())
	}
	r.stop()
}

// TestCopy copies the database of a log that is used: the copy is that log up to then.
func TestCopy(t *testing.T) {
	disk := vfs.NewMem()
	r := start(t, "db", config(t, disk))
	r.add(300)
	must(t, r.Copy("copy"))
	r.add(1)
	if err := r.Copy("copy"); err == nil {
		t.Error("a copy is written over another")
	}
	r.stop()
	again := config(t, disk)
	again.AcceptAnchor = true // a copy has none
	c := start(t, "copy", again)
	c.checkAll()
	if c.Size() != 300 {
		t.Errorf("the copy has %d entries", c.Size())
	}
	c.stop()
}

// TestCopyOfDamage: what is damaged is not copied, though nobody has read it yet.
func TestCopyOfDamage(t *testing.T) {
	disk := vfs.NewMem()
	r := start(t, "db", config(t, disk))
	r.add(300)
	r.stop()
	r = start(t, "db", config(t, disk)) // what the first one held in memory is in a table now
	names, err := disk.List("db")
	must(t, err)
	tables := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	if len(tables) == 0 {
		t.Fatalf("no table in %q", names)
	}
	path := disk.PathJoin("db", tables[0])
	bit := flip(t, disk, path, newRNG(1))
	if err := r.Copy("copy"); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), tables[0]) {
		t.Errorf("a damaged table is copied: %v", err)
	}
	content, err := disk.UnsafeGetFileDataBuffer(path)
	must(t, err)
	content[bit/8] ^= 1 << (bit % 8) // the log is checked at the end
	must(t, r.Copy("again"))
}
