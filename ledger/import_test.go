package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// exportedLog is a log that was exported, and what was handed out of it.
type exportedLog struct {
	*target
	head     merkle.Head
	disk     *vfs.MemFS // with the log and its anchor
	tree     *tree
	receipts []*verify.Receipt
	entries  []*entry.Entry // with their signatures, as they were submitted last
}

// exportLog makes a log of n entries and exports it.
func exportLog(t *testing.T, n int) *exportedLog {
	t.Helper()
	x := &exportedLog{target: newTarget(t), disk: vfs.NewCrashableMem(), tree: new(tree)}
	r := start(t, "log", atOnce(config(t, x.disk)))
	if n > 3 {
		r.bulk(n - 3)
	}
	for range min(n, 3) {
		e := newEntry(t)
		x.entries = append(x.entries, e)
		answer, err := r.Submit(t.Context(), e)
		must(t, err)
		receipt, err := answer.Receipt(answer.Registered[0].Index)
		must(t, err)
		x.receipts = append(x.receipts, receipt)
	}
	x.tree.grow(r)
	x.head = r.Head().Head
	x.export(r.Log)
	r.stop()
	return x
}

// importTo imports the export to a disk.
func (x *exportedLog) importTo(disk vfs.FS, newest ...merkle.Head) (*ledger.ImportReport, error) {
	cfg := config(x.t, disk)
	cfg.Used = true
	what := &ledger.ImportConfig{Export: x.dir}
	for _, head := range newest {
		what.Newest = append(what.Newest, ledger.KnownHead{Head: head})
	}
	return ledger.Import(x.t.Context(), "log", cfg, what)
}

// checkImported serves the imported log: it is the exported one, and goes on.
func (x *exportedLog) checkImported(disk vfs.FS) {
	x.t.Helper()
	cfg := config(x.t, disk)
	cfg.Used, cfg.AcceptClock = true, true // the clock of the exported log ran fast
	if found := fsck(x.t, "log", cfg); found.Head != x.head || found.Anchor != x.head {
		x.t.Fatalf("imported %v under the anchor %v, want %v", found.Head, found.Anchor, x.head)
	}
	r := start(x.t, "log", cfg)
	defer r.stop()
	r.checkAll()
	for i, e := range x.entries {
		index := x.receipts[i].Index
		leaf := x.tree.leaves[index]
		if !bytes.Equal(x.receipts[i].Leaf, leaf) {
			x.t.Errorf("entry %d: the old receipt is of another", index)
		}
		if err := checkReceipt(r.Log, x.receipts[i], x.tree.hashes); err != nil {
			x.t.Errorf("the old receipt of entry %d: %v", index, err)
		}
		answer, err := r.Submit(x.t.Context(), copies([]*entry.Entry{e})...)
		must(x.t, err)
		_, at, err := entry.DecodeLeaf(leaf)
		must(x.t, err)
		if got := answer.Registered[0]; got != (ledger.Registration{Index: index, RegisteredAt: at, Duplicate: true}) {
			x.t.Errorf("entry %d submitted again: %+v, registered at %d before", index, got, at)
		}
	}
	found, err := r.Find(ledger.Query{Index: entry.ByAgent, Value: "agent"})
	must(x.t, err)
	if uint64(len(found)) != x.head.Size {
		x.t.Errorf("%d entries of the agent, want %d", len(found), x.head.Size)
	}
	for _, tile := range tilesOf(0, x.head.Size) {
		if got, err := r.Tile(tile); err != nil || !bytes.Equal(got, x.tree.tile(tile)) {
			x.t.Errorf("%s: another one, %v", tile.Path(), err)
		}
	}
	r.add(3)
	r.checkAll()
}

// TestImportRestoresALog brings logs back whose sizes are at the borders of tiles
// and of commits, with their anchor and without anything but the export.
func TestImportRestoresALog(t *testing.T) {
	sizes := []int{1, 2, 255, 256, 257, 700, 4097, 512, 4096, 8192}
	for _, n := range sizes[:budget.Budget{Short: 6, Usual: len(sizes)}.Now()] {
		x := exportLog(t, n)
		disk := vfs.NewMem()
		if n%2 == 0 {
			copyTo(t, x.disk, disk, "log.anchor")
		}
		report, err := x.importTo(disk, x.head)
		must(t, err)
		if *report != (ledger.ImportReport{Head: x.head}) {
			t.Errorf("%d entries: %+v", n, report)
		}
		if report, err = x.importTo(disk, x.head); err != nil || !report.Already || report.Head != x.head {
			t.Errorf("%d entries, once more: %+v, %v", n, report, err)
		}
		x.checkImported(disk)
		if names, _ := disk.List(""); slices.Contains(names, "log.import") {
			t.Errorf("left: %q", names)
		}
		if _, err := x.importTo(disk, x.head); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), "arl serve continues it") {
			t.Errorf("over a log that went on: %v", err)
		}
	}
}

// TestImportTakesASnapshotAlong: the first start after an import need not replay
// what the import has just replayed.
func TestImportTakesASnapshotAlong(t *testing.T) {
	x := exportLog(t, 700)
	disk := vfs.NewMem()
	cfg := config(t, disk)
	cfg.SnapshotEvery = 512
	_, err := ledger.Import(t.Context(), "log", cfg, &ledger.ImportConfig{Export: x.dir, Newest: []ledger.KnownHead{{Head: x.head}}})
	must(t, err)
	if found := fsck(t, "log", cfg); found.Snapshots != 1 {
		t.Errorf("%d snapshots", found.Snapshots)
	}
}

// TestImportGoesOnWhereItWas stops imports before each entry bundle, and then lets
// one come through: of the same export, of a newer and of an older one, of another
// history, and over a part that was damaged.
func TestImportGoesOnWhereItWas(t *testing.T) {
	budget.Unraced(t, "TestImportRestoresALog has the same goroutines")
	first := exportLog(t, 9000)
	grown := &exportedLog{target: newTarget(t), disk: first.disk, tree: new(tree)}
	r := start(t, "log", atOnce(config(t, first.disk)))
	r.bulk(300)
	grown.tree.grow(r)
	grown.head = r.Head().Head
	grown.export(r.Log)
	r.stop()
	small, other := exportLog(t, 5000), exportLog(t, 9000)
	for name, test := range map[string]struct {
		then   *exportedLog
		damage func(t *testing.T, disk *vfs.MemFS)
		part   bool // whether what is left is the beginning of the export
	}{
		"the same":        {then: first, part: true},
		"a newer one":     {then: grown, part: true},
		"a smaller other": {then: small},
		"another history": {then: other},
		"a lost tail":     {then: first, part: true, damage: removeLogs},
		"a damaged part":  {then: first, damage: spoilManifest},
	} {
		disk := vfs.NewCrashableMem()
		ctx, cancel := context.WithCancel(t.Context())
		cfg := config(t, disk)
		cfg.Used = true
		_, err := ledger.Import(ctx, "log", cfg, &ledger.ImportConfig{Export: first.dir, Newest: []ledger.KnownHead{{Head: first.head}}, Progress: func(done, total uint64) {
			if done > 8000 && done < total {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := ledger.Open("log", cfg); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("%s: a part is taken for a log: %v", name, err)
		}
		left := entriesIn(t, disk)
		if left != 8192 {
			t.Errorf("%s: %d entries were copied, want 8192", name, left)
		}
		if test.damage != nil {
			test.damage(t, disk)
		}
		if left = 0; test.part {
			left = entriesIn(t, disk)
		}
		report, err := test.then.importTo(disk, test.then.head)
		must(t, err)
		if report.Resumed != left {
			t.Errorf("%s: goes on at %d, want %d", name, report.Resumed, left)
		}
		test.then.checkImported(disk)
	}
}

// entriesIn counts the entries of a part, in a copy of it. How many a part has that
// lost its write-ahead log depends on when tables were written.
func entriesIn(t *testing.T, disk *vfs.MemFS) (n uint64) {
	t.Helper()
	db, err := ledger.OpenDatabase("log.import", snapshotOf(disk))
	must(t, err)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{'e'}, UpperBound: []byte{'f'}})
	must(t, err)
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	must(t, it.Close())
	must(t, db.Close())
	return n
}

// removeLogs removes what is in no table yet.
func removeLogs(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	names, err := disk.List("log.import")
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			must(t, disk.Remove("log.import/"+name))
		}
	}
	dir, err := disk.OpenDir("log.import")
	must(t, err)
	must(t, dir.Sync()) // else a copy of the disk has them still
	must(t, dir.Close())
}

// spoilManifest leaves a database that cannot be opened.
func spoilManifest(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	names, err := disk.List("log.import")
	must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST") {
			write(t, disk, "log.import/"+name, []byte("spoilt"))
		}
	}
}

// TestImportHoldsToTheNewestHead: what the anchor or a person knows to be signed
// must be in the export, and one of the two must know something.
func TestImportHoldsToTheNewestHead(t *testing.T) {
	x := exportLog(t, 300)
	older, newer, other := exportLog(t, 40), snapshotOf(x.disk), exportLog(t, 300)
	r := start(t, "log", config(t, newer))
	r.add(1)
	next := r.Head().Head
	r.stop()
	prefix := merkle.Head{Size: 100, Root: referenceRoot(x.tree.hashes[:100])}
	none := merkle.Head{}
	for name, test := range map[string]struct {
		anchor *vfs.MemFS
		newest merkle.Head
		seen   merkle.Head
		want   error
		text   string
	}{
		"nobody knows":                {want: ledger.ErrAnchor, text: "--newest"},
		"this machine has seen it":    {seen: x.head, want: ledger.ErrAnchor},
		"the anchor knows it":         {anchor: x.disk},
		"a person knows it":           {newest: x.head},
		"a person knows an older one": {newest: prefix},
		"both know it":                {anchor: x.disk, newest: x.head},
		"the anchor knows more":       {anchor: newer, want: ledger.ErrRolledBack, text: " has size 300, but log.anchor has a signed tree head of 301: import a newer export; if entries"},
		"not even then":               {anchor: newer, newest: x.head, want: ledger.ErrRolledBack},
		"a person knows more":         {newest: next, want: ledger.ErrRolledBack, text: "but --newest names a tree head of 301: import a newer export; if entries are lost for good, continue under a new origin (arl ledger new-origin)"},
		"with an anchor too":          {anchor: x.disk, newest: next, want: ledger.ErrRolledBack, text: "but --newest names a tree head of 301"},
		"this machine knows more":     {anchor: x.disk, seen: next, want: ledger.ErrRolledBack, text: "but this machine has accepted a signed tree head of 301"},
		"another anchor":              {anchor: other.disk, newest: x.head, want: ledger.ErrRolledBack, text: "another history"},
		"another smaller anchor":      {anchor: older.disk, newest: x.head, want: ledger.ErrRolledBack, text: "another history"},
		"a person knows another":      {newest: other.head, want: ledger.ErrRolledBack, text: "another history"},
	} {
		disk := vfs.NewMem()
		if test.anchor != nil {
			copyTo(t, test.anchor, disk, "log.anchor")
		}
		what := &ledger.ImportConfig{Export: x.dir}
		if test.newest != none {
			what.Newest = append(what.Newest, ledger.KnownHead{Head: test.newest, By: "--newest names a tree head"})
		}
		if test.seen != none {
			what.Seen = append(what.Seen, ledger.KnownHead{Head: test.seen, By: "this machine has accepted a signed tree head"})
		}
		before := listing(t, disk)
		_, err := ledger.Import(t.Context(), "log", config(t, disk), what)
		if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.text) {
			t.Errorf("%s: %v, want %v: %s", name, err, test.want, test.text)
		}
		if test.want != nil && !slices.Equal(before, listing(t, disk)) {
			t.Errorf("%s: it left %q", name, listing(t, disk))
		}
		if test.want == nil {
			x.checkImported(disk)
		}
	}
	disk := vfs.NewMem() // an anchor that cannot be read is put aside by whoever names the head
	file, err := disk.Create("log.anchor", vfs.WriteCategoryUnspecified)
	must(t, errors.Join(err, file.Close()))
	if _, err := x.importTo(disk); !errors.Is(err, ledger.ErrAnchor) {
		t.Errorf("an empty anchor: %v", err)
	}
	if _, err := x.importTo(disk, x.head); err != nil {
		t.Errorf("an empty anchor, and a named head: %v", err)
	}
}

// TestImportRefusesADamagedExportChaos changes, cuts and removes files of an export: every
// sixth, with -short every 20th, with ARL_CHAOS each. None becomes a log, and the good one
// does afterwards.
func TestImportRefusesADamagedExportChaos(t *testing.T) {
	budget.Unraced(t, "the goroutines of an import are those of TestImportRestoresALog")
	x := exportLog(t, budget.Budget{Short: 5000, Usual: 9000}.Now())
	disk, every := vfs.NewMem(), budget.Budget{Short: 20, Usual: 6, Chaos: 1}.Now()
	for i, name := range x.files() {
		if i%every != 0 {
			continue
		}
		path := filepath.Join(x.dir, filepath.FromSlash(name))
		good, err := os.ReadFile(path)
		must(t, err)
		if strings.HasSuffix(name, "0") && name != "tile/entries/000" && name != "tile/0/000" {
			continue // one in some is enough
		}
		flipped, cut := bytes.Clone(good), good[:len(good)-1]
		flipped[len(flipped)/2] ^= 4
		for what, change := range map[string]func() error{
			"changed": func() error { return os.WriteFile(path, flipped, 0o600) },
			"cut":     func() error { return os.WriteFile(path, cut, 0o600) },
			"empty":   func() error { return os.WriteFile(path, nil, 0o600) },
			"missing": func() error { return os.Remove(path) },
		} {
			must(t, change())
			must(t, disk.RemoveAll("log.import")) // else nobody reads what was copied before
			_, err := x.importTo(disk, x.head)
			want := export.ErrDamaged
			if name == "checkpoint" && what == "missing" {
				want = os.ErrNotExist
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("%s %s: %v", name, what, err)
			}
			if there, _ := disk.Stat("log"); there != nil {
				t.Fatalf("%s %s: a log is there", name, what)
			}
		}
		must(t, os.WriteFile(path, good, 0o600))
	}
	report, err := x.importTo(disk, x.head)
	if err != nil || report.Resumed == 0 {
		t.Fatalf("the good export: %+v, %v", report, err)
	}
	x.checkImported(disk)
}

// TestImportRefusesOtherEntries gives an export whose tiles are all of one piece,
// but not those that were signed.
func TestImportRefusesOtherEntries(t *testing.T) {
	x, other := exportLog(t, 600), exportLog(t, 600)
	must(t, os.WriteFile(filepath.Join(other.dir, "checkpoint"), x.read("checkpoint"), 0o600))
	disk := vfs.NewMem()
	prefix := merkle.Head{Root: merkle.EmptyHead().Root}
	if _, err := other.importTo(disk, prefix); !errors.Is(err, export.ErrDamaged) || !strings.Contains(err.Error(), "signed is "+x.head.Root.String()) {
		t.Errorf("%v", err)
	}
	if there, _ := disk.Stat("log"); there != nil {
		t.Error("a log is there")
	}
}

// TestImportRefusesAnotherLog: of another origin, of another key, of nothing.
func TestImportRefusesAnotherLog(t *testing.T) {
	x := exportLog(t, 10)
	skey, vkey, err := note.GenerateKey(nil, origin)
	must(t, err)
	signer, err := note.NewSigner(skey)
	must(t, err)
	verifier, err := note.NewVerifier(vkey)
	must(t, err)
	empty := newTarget(t)
	empty.export(start(t, "log", atOnce(config(t, vfs.NewMem()))).Log)
	for name, test := range map[string]struct {
		change func(cfg *ledger.Config)
		dir    string
		want   error
		text   string
	}{
		"another origin":   {func(cfg *ledger.Config) { cfg.Origin = "other.example/log" }, x.dir, ledger.ErrOrigin, "is an export of \"ledger.example/test\", the keys are those of other.example/log"},
		"another key":      {func(cfg *ledger.Config) { cfg.Keys = []ledger.Key{{Signer: signer, Verifier: verifier}} }, x.dir, ledger.ErrKeys, "signed by no key"},
		"no export":        {func(*ledger.Config) {}, t.TempDir(), os.ErrNotExist, "pass a directory that arl log export wrote"},
		"nothing":          {func(*ledger.Config) {}, x.dir + "/nowhere", os.ErrNotExist, "holds no export"},
		"an empty log":     {func(*ledger.Config) {}, empty.dir, ledger.ErrNotFound, "without entries"},
		"no key in force":  {func(cfg *ledger.Config) { cfg.Signs = func(ledger.Fold, []ledger.Key) []ledger.Key { return nil } }, x.dir, ledger.ErrKeys, "in force"},
		"no configuration": {func(cfg *ledger.Config) { cfg.Fatal = nil }, x.dir, nil, "Fatal"},
	} {
		disk := vfs.NewMem()
		cfg := config(t, disk)
		test.change(cfg)
		_, err := ledger.Import(t.Context(), "log", cfg, &ledger.ImportConfig{Export: test.dir, Newest: []ledger.KnownHead{{Head: x.head}}})
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", name, err)
		}
		if there, _ := disk.Stat("log"); there != nil {
			t.Errorf("%s: a log is there", name)
		}
	}
}

// TestImportNeedsAFreePlace: it touches nothing that stands in its way.
func TestImportNeedsAFreePlace(t *testing.T) {
	x, disk := exportLog(t, 10), vfs.NewMem()
	must(t, disk.MkdirAll("log", 0o755))
	file, err := disk.Create("log/letter.txt", vfs.WriteCategoryUnspecified)
	must(t, errors.Join(err, file.Close()))
	if _, err := x.importTo(disk, x.head); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("over a letter: %v", err)
	}
	other := start(t, "log.import", config(t, disk))
	defer other.stop()
	must(t, disk.RemoveAll("log"))
	if _, err := x.importTo(disk, x.head); !errors.Is(err, ledger.ErrInUse) {
		t.Errorf("while another import runs: %v", err)
	}
}

// A copy that was made while the export grew has an older head beside newer tiles:
// the full tile has taken the place of the partial one.
func TestImportOfACopyOfAGrowingExport(t *testing.T) {
	x := exportLog(t, 300)
	signed := x.read("checkpoint")
	r := start(t, "log", atOnce(config(t, x.disk)))
	r.bulk(300)
	x.export(r.Log)
	r.stop()
	must(t, os.WriteFile(filepath.Join(x.dir, "checkpoint"), signed, 0o600))
	if _, err := os.Stat(filepath.Join(x.dir, "tile", "0", "001.p")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the partial tile is there")
	}
	disk := vfs.NewMem()
	_, err := x.importTo(disk, x.head)
	must(t, err)
	x.checkImported(disk)
}
