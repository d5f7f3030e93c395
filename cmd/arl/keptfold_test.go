package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// foldCommands are commands that fold the log, as programs read their answers.
func foldCommands(incident uint64) [][]string {
	return [][]string{
		{"incident", "list", "-o", "json"}, {"incident", "show", decimal(incident), "-o", "json"},
		{"agent", "history", "a", "-o", "json"}, {"agent", "history", "b", "-o", "json"}, {"agent", "history", "a"}, {"log", "audit", "-o", "json"},
	}
}

// alike takes out of an answer what it says of the fold that was kept, and the
// signatures of the tree head: the second key's comes later than the head.
func alike(out string) string {
	signatures := regexp.MustCompile(`\\n\\n— [^"]*"`)
	out, _, _ = strings.Cut(out, `,"before":{`)
	return signatures.ReplaceAllString(strings.TrimRight(out, "}\n"), `"`)
}

// TestKeptFoldGivesTheSameAnswers lets a log grow at random, incidents and all,
// and asks everything after each step with the fold that is kept and without.
func TestKeptFoldGivesTheSameAnswers(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	id := k.incident()
	k.enrol("b")
	seed := budget.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 16 {
		for range r.IntN(5) {
			k.grow(r, fmt.Sprint(round, "-", r.Uint32()))
		}
		for _, command := range foldCommands(id) {
			with, told, code := k.run(command...)
			without, _, want := k.run(append(command, "--no-cache")...)
			if code != want || told != "" && code == exit.OK || alike(with) != alike(without) {
				t.Fatalf("round %d, arl %s: exit code %d and %d, %s\n%s\nwithout what is kept:\n%s", round, strings.Join(command, " "), code, want, told, with, without)
			}
		}
	}
	if !strings.Contains(k.says("log", "audit"), "audited before") {
		t.Error("no fold was kept")
	}
}

// TestAuditGoesOn shows what an audit says of what was audited before, and how it
// is begun anew.
func TestAuditGoesOn(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	k.incident()
	size := k.log.Head().Size
	if out := k.says("log", "audit"); strings.Contains(out, "before") {
		t.Errorf("the first audit says:\n%s", out)
	}
	head := k.log.Head()
	if out := k.says("log", "audit"); !strings.Contains(out, fmt.Sprintf("audited before  entries 0 to %d, on 20", size-1)) ||
		!strings.Contains(out, fmt.Sprintf("under the head of size %d, root %s", head.Size, head.Root)) ||
		!strings.Contains(out, "audited now     no entry: the log has not grown") {
		t.Errorf("the second audit says:\n%s", out)
	}
	k.step("y")
	k.step("z")
	if out := k.says("log", "audit"); !strings.Contains(out, fmt.Sprintf("audited now     entries %d to %d", size, size+1)) {
		t.Errorf("an audit of two more says:\n%s", out)
	}
	var report auditReport
	k.must(json.Unmarshal([]byte(k.says("log", "audit", "-o", "json")), &report))
	if report.Before == nil || report.Before.Size != size+2 || report.Before.Root != k.log.Head().Root || report.Before.At == 0 {
		t.Errorf("before: %+v", report.Before)
	}
	for _, flag := range []string{"--from-start", "--no-cache"} {
		if out := k.says("log", "audit", flag); strings.Contains(out, "before") {
			t.Errorf("an audit with %s says:\n%s", flag, out)
		}
	}
}

// TestOnlyNewEntriesAreFetched counts the requests for entries, by commands that
// fold the log.
func TestOnlyNewEntriesAreFetched(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	k.incident()
	for i := range 2 * merkle.TileWidth {
		k.step(fmt.Sprint("s", i))
	}
	tiles := func(args ...string) (asked int) {
		k.fetched = nil
		k.says(args...)
		for _, path := range k.fetched {
			if strings.HasPrefix(path, "/tile/entries/") {
				asked++
			}
		}
		return asked
	}
	for _, c := range []struct {
		want int
		args []string
	}{
		{3, []string{"log", "audit"}}, {0, []string{"log", "audit"}}, {0, []string{"incident", "list"}}, {0, []string{"agent", "history", "a"}},
		{1, []string{"agent", "history", "a", "-o", "json"}}, {3, []string{"log", "audit", "--from-start"}}, {3, []string{"incident", "list", "--no-cache"}},
	} {
		if got := tiles(c.args...); got != c.want {
			t.Errorf("arl %s asks for %d bundles of entries, want %d", strings.Join(c.args, " "), got, c.want)
		}
	}
	k.step("more")
	if got := tiles("incident", "list"); got != 1 {
		t.Errorf("one entry more: %d bundles", got)
	}
}

// TestNoCacheTouchesNothing shows that --no-cache neither reads nor writes.
func TestNoCacheTouchesNothing(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	id := k.incident()
	for _, command := range foldCommands(id) {
		if _, told, code := k.run(append(command, "--no-cache")...); code != exit.OK && command[2] != "b" || strings.Contains(told, "warning") {
			t.Errorf("arl %v: exit code %d, %s", command, code, told)
		}
	}
	folds := filepath.Dir(k.place().Path)
	if _, err := os.Stat(folds); !os.IsNotExist(err) {
		t.Errorf("%s: %v", folds, err)
	}
	k.must(os.Mkdir(folds, 0o700))
	k.must(os.WriteFile(k.place().Path, []byte("not looked at"), 0o600))
	k.says("log", "audit", "--no-cache")
	if got := k.kept(); string(got) != "not looked at" {
		t.Errorf("written: %q", got)
	}
}

// TestDamagedKeptFold cuts the file at every length and flips a bit of every
// byte: it is refused. A command says so, gives the same answer as before, and
// puts a sound file in its place.
func TestDamagedKeptFold(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	id := k.incident()
	want := k.says("incident", "show", decimal(id))
	good, place := k.kept(), k.place()
	kept, err := place.Load()
	if err != nil || kept.Head.Head != k.log.Head().Head {
		t.Fatalf("loaded %+v, %v", kept, err)
	}
	try := func(what string, at int, bad []byte) {
		t.Helper()
		k.must(os.WriteFile(place.Path, bad, 0o600))
		if kept, err := place.Load(); err == nil {
			t.Fatalf("%s %d: loaded a fold of %d entries", what, at, kept.Head.Size)
		}
		if at%251 != 0 {
			return
		}
		out, told, code := k.run("incident", "show", decimal(id))
		if code != exit.OK || out != want || !strings.Contains(told, "warning: the fold in "+place.Path+" is not used") {
			t.Fatalf("%s %d: exit code %d, %s\n%s", what, at, code, told, out)
		}
		if kept, err := place.Load(); err != nil || kept.Head.Head != k.log.Head().Head {
			t.Fatalf("%s %d: nothing sound was put in its place: %v", what, at, err)
		}
	}
	for size := range good {
		try("cut at", size, good[:size])
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		try("bit of byte", i, bad)
	}
	try("with more behind", 0, append(bytes.Clone(good), 0))
}

// sealed gives a kept fold the digest that fits it.
func sealed(content []byte) []byte {
	content = content[:len(content)-sha256.Size]
	sum := sha256.Sum256(content)
	return append(slices.Clip(content), sum[:]...)
}

// TestKeptFoldUnderARightDigest flips a bit of every byte and digests the file
// anew, as a program with a defect might: what is loaded, if anything, is a fold
// of the log under the signed head.
func TestKeptFoldUnderARightDigest(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	k.incident()
	k.says("incident", "list")
	good, place, loaded := k.kept(), k.place(), 0
	for i := range len(good) - sha256.Size {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		k.must(os.WriteFile(place.Path, sealed(bad), 0o600))
		kept, err := place.Load()
		if err != nil {
			continue
		}
		loaded++
		if computed, err := audit.HeadAt(kept.Follower.State(), kept.Head.Size); err != nil || computed != k.log.Head().Head {
			t.Fatalf("byte %d: loaded a fold of another log: %v, %v", i, computed, err)
		}
	}
	if loaded*2 > len(good) {
		t.Errorf("%d of %d changes were loaded", loaded, len(good))
	}
}

// rewrite gives the kept fold another header, with the digest that fits.
func (k *keeper) rewrite(change func(h map[string]any)) {
	k.hostile.t.Helper()
	good := k.kept()
	start := len(foldMagic) + 4
	length := int(binary.BigEndian.Uint32(good[len(foldMagic):]))
	var header map[string]any
	k.must(json.Unmarshal(good[start:start+length], &header))
	change(header)
	content, err := json.Marshal(header)
	k.must(err)
	begin := append(binary.BigEndian.AppendUint32([]byte(foldMagic), uint32(len(content))), content...)
	k.must(os.WriteFile(k.place().Path, sealed(append(begin, good[start+length:]...)), 0o600))
}

// TestKeptFoldOfAnother gives folds that are whole but not of this log, not by
// this program, or not under a head of this ledger: none is used.
func TestKeptFoldOfAnother(t *testing.T) {
	t.Parallel()
	k, stranger := newKeeper(t), newKeeper(t)
	defer k.end()
	defer stranger.end()
	older := k.log.Head().Note
	id := k.incident()
	want := k.says("incident", "show", decimal(id))
	good := k.kept()
	for name, c := range map[string]struct {
		change func(h map[string]any)
		want   string
	}{
		"origin":   {func(h map[string]any) { h["origin"] = stranger.node.Origin }, "it belongs to the ledger " + fmt.Sprintf("%q", stranger.node.Origin)},
		"genesis":  {func(h map[string]any) { h["genesis"] = merkle.HashLeaf(nil) }, "pinned is"},
		"version":  {func(h map[string]any) { h["program"] = "older" }, "another version of arl wrote it"},
		"head":     {func(h map[string]any) { h["note"] = older }, "its tree head of size"},
		"stranger": {func(h map[string]any) { h["note"] = stranger.log.Head().Note }, "its tree head: "},
		"note":     {func(h map[string]any) { h["note"] = "no note" }, "its tree head: "},
		"member":   {func(h map[string]any) { h["more"] = 1 }, "its header: "},
		"header":   {func(h map[string]any) { h["note"] = strings.Repeat("x", 1<<20) }, "its header has"},
	} {
		k.must(os.WriteFile(k.place().Path, good, 0o600))
		k.rewrite(c.change)
		out, told, code := k.run("incident", "show", decimal(id))
		if code != exit.OK || out != want || !strings.Contains(told, c.want) {
			t.Errorf("%s: exit code %d, %s\n%s", name, code, told, out)
		}
		if k.says("incident", "show", decimal(id)) != want {
			t.Errorf("%s: another answer afterwards", name)
		}
	}
	stranger.says("incident", "list")
	k.must(os.WriteFile(k.place().Path, stranger.kept(), 0o600))
	if out, told, code := k.run("incident", "show", decimal(id)); code != exit.OK || out != want || !strings.Contains(told, "it belongs to the ledger ") {
		t.Errorf("the fold of another log: exit code %d, %s\n%s", code, told, out)
	}
}

// TestKeptFoldOfAFork shows another log under the same key, after the accepted
// head was lost: larger, as large and smaller ones are exit code 10, with both
// signed heads as evidence, and the fold stays.
func TestKeptFoldOfAFork(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.incident()
	other := k.twin()
	defer k.end()
	defer other.end()
	k.keys["a"] = nil
	for _, name := range []entry.Principal{"one", "two"} {
		k.enrol(name)
	}
	k.says("log", "audit")
	kept := k.kept()
	for i, name := range []entry.Principal{"other", "others", "more"} { // smaller, as large, larger
		other.enrol(name)
		k.must(os.RemoveAll(filepath.Join(k.home, "heads")))
		k.must(os.RemoveAll(filepath.Join(k.home, "evidence")))
		out := other.exits(exit.Inconsistent, "incident", "list", "--url", other.web.URL)
		evidence, err := filepath.Glob(filepath.Join(k.home, "evidence", "fork-*.json"))
		if err != nil || len(evidence) != 1 {
			t.Fatalf("fork %d: evidence %v, %v\n%s", i, evidence, err, out)
		}
		var shown verify.Evidence
		content, err := os.ReadFile(evidence[0])
		k.must(err)
		k.must(json.Unmarshal(content, &shown))
		for _, note := range []string{shown.Older, shown.Newer} {
			if _, err := k.place().Root.Head([]byte(note)); err != nil {
				t.Errorf("fork %d: %v in\n%s", i, err, content)
			}
		}
		var m verify.Material
		k.must(m.AddEvidence(shown))
		_, err = k.place().Root.Verify(m)
		if _, ok := errors.AsType[*verify.ForkError](err); !ok {
			t.Errorf("fork %d: the file does not convict by itself: %v\n%s", i, err, content)
		}
		if !bytes.Equal(k.kept(), kept) {
			t.Fatalf("fork %d: the kept fold has changed", i)
		}
	}
	k.must(os.RemoveAll(filepath.Join(k.home, "heads")))
	if out := k.says("log", "audit"); !strings.Contains(out, "no entry") {
		t.Errorf("the log itself:\n%s", out)
	}
}

// TestKeptFoldOfALongerLog shows an older copy of the same log, after the
// accepted head was lost: the answer is that of the older log, and the fold of
// the longer one stays.
func TestKeptFoldOfALongerLog(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	id := k.incident()
	older := k.twin()
	defer k.end()
	defer older.end()
	k.enrol("b")
	k.says("log", "audit")
	kept := k.kept()
	k.must(os.RemoveAll(filepath.Join(k.home, "heads")))
	for _, command := range foldCommands(id) {
		with, told, code := older.run(command...)
		without, _, want := older.run(append(command, "--no-cache")...)
		if alike(with) != alike(without) || code != want || strings.Contains(told, "warning") {
			t.Errorf("arl %v: exit code %d and %d, %s\n%s\nwithout what is kept:\n%s", command, code, want, told, with, without)
		}
	}
	if !bytes.Equal(k.kept(), kept) {
		t.Error("the kept fold has changed")
	}
}

// TestKeptFoldsAreSmallAndPrivate shows what lies on the disk, and that a fold
// that would be too large, or that cannot be written, is not kept: the answer is
// the same.
func TestKeptFoldsAreSmallAndPrivate(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	id := k.incident()
	want := k.says("incident", "show", decimal(id))
	place := k.place()
	dir, base := filepath.Split(place.Path)
	k.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		k.must(err)
		info, err := d.Info()
		k.must(err)
		if d.IsDir() && info.Mode().Perm() == 0o700 || info.Mode() == 0o600 && strings.HasPrefix(d.Name(), base) {
			return nil
		}
		t.Errorf("%s: %v", path, info.Mode())
		return nil
	}))
	kept, err := place.Load()
	k.must(err)
	for _, place.Max = range []int64{1, 100, int64(len(k.kept()) - 1)} {
		if err := place.Save(kept); err == nil || !strings.Contains(err.Error(), "larger than a kept fold may be") {
			t.Errorf("at most %d bytes: %v", place.Max, err)
		}
		if _, err := place.Load(); err == nil {
			t.Errorf("at most %d bytes: loaded", place.Max)
		}
	}
	if left, err := filepath.Glob(place.Path + ".pending"); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	place.Max = int64(len(k.kept()))
	k.must(place.Save(kept))
	k.must(os.RemoveAll(dir))
	k.must(os.WriteFile(filepath.Clean(dir), nil, 0o600))
	if out, told, code := k.run("incident", "show", decimal(id)); code != exit.OK || out != want || !strings.Contains(told, "warning: the fold is not kept") {
		t.Errorf("no place to keep it: exit code %d, %s\n%s", code, told, out)
	}
}

// TestKeptFoldIsWrittenByOne shows that a command which meets another one that
// writes does not wait for it, and that many at once all give the answer.
func TestKeptFoldIsWrittenByOne(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	id := k.incident()
	place := k.place()
	k.must(os.MkdirAll(filepath.Dir(place.Path), 0o700))
	lock := flock.New(place.Path + ".lock")
	if locked, err := lock.TryLock(); !locked || err != nil {
		t.Fatal(locked, err)
	}
	want := k.says("incident", "show", decimal(id))
	if _, err := os.Stat(place.Path); !os.IsNotExist(err) {
		t.Errorf("written beside another one that writes: %v", err)
	}
	k.must(lock.Unlock())
	answers := make(chan string)
	const commands = 6
	for range commands {
		go func() {
			out, err := k.command("incident", "show", decimal(id), "--url", k.web.URL).CombinedOutput()
			answers <- fmt.Sprintf("%s%v", out, err)
		}()
	}
	for range commands {
		if got := <-answers; got != want+"<nil>" {
			t.Errorf("%s\nwant:\n%s", got, want)
		}
	}
	if kept, err := place.Load(); err != nil || kept.Head.Head != k.log.Head().Head {
		t.Errorf("kept: %v", err)
	}
}
