package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
)

// TestJournalReplaced: while a proxy runs, the size of its journal is bounded by what it keeps.
// What it keeps is the same after each replacement, and after a crash within it.
func TestJournalReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, journalFile)
	j, _, err := openJournal(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	j.slack = 2000
	p := &Proxy{journal: j, calls: map[entry.Ref]*call{}}
	text := jsontext.Value(fmt.Sprintf("%q", strings.Repeat("x", 200)))
	want := map[entry.Ref]bool{}
	replaced := 0
	for i := range 400 {
		k := &call{record: record{Exec: entry.NewRef("w", fmt.Sprint(i)), Tool: "get", Effect: entry.EffectNone}}
		if i%40 == 0 {
			k.Tool, k.Effect, k.Undo, k.Values = "put", entry.EffectCompensable, &Call{Tool: "del"}, values{"arguments/n": text}
			want[k.Exec] = true
		}
		before := j.size
		if err := p.makeRoom(); err != nil {
			t.Fatal(err)
		}
		if j.size < before {
			replaced++
		}
		if err := j.begin(&k.record); err != nil {
			t.Fatal(err)
		}
		p.calls[k.Exec] = k
		if err := j.write(&record{Exec: k.Exec, Progress: entry.Confirmed, Ended: int64(1000 + i)}); err != nil {
			t.Fatal(err)
		}
		k.end(entry.Confirmed, int64(1000+i))
		p.drop(k)
		if info, err := os.Stat(path); err != nil || info.Size() != j.size || j.size > 2*j.whole+j.slack+room(t, &k.record) {
			t.Fatalf("after %d calls: %d bytes, %v; %d were kept", i, j.size, err, j.whole)
		}
	}
	if replaced < 3 {
		t.Errorf("replaced %d times", replaced)
	}
	for exec := range want {
		if vs, err := j.values(&p.calls[exec].record); err != nil || string(vs["arguments/n"]) != string(text) {
			t.Errorf("%s: %v, %v", exec, vs, err)
		}
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	j.slack = -1 << 40
	if err := p.makeRoom(); err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
	crashes(t, old, next, len(want))
	_, late, err := openJournal(dir, 1200)
	if err != nil || len(late) != 5 || late[0].Exec != "w#200" {
		t.Errorf("calls that ended before are kept: %d, %v", len(late), err)
	}
}

// crashes has a replacement end at bytes all over what it writes, and after it: the journal then
// has the calls that are kept, and nothing else is left in its directory.
func crashes(t *testing.T, old, next []byte, want int) {
	t.Helper()
	for cut := 0; cut <= len(next); cut += 37 {
		opensWith(t, map[string][]byte{journalFile: old, "." + journalFile + ".TORN": next[:cut]}, want)
	}
	opensWith(t, map[string][]byte{journalFile: next}, want)
}

func opensWith(t *testing.T, files map[string][]byte, want int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, records, err := openJournal(dir, 0)
	if err != nil || len(records) != want {
		t.Fatalf("%d calls, %v", len(records), err)
	}
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func room(t *testing.T, r *record) int64 {
	t.Helper()
	line, err := lineOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return int64(2*len(line) + 1000)
}

// TestJournalFull: a journal that is full takes no call with a compensation, and takes all others.
func TestJournalFull(t *testing.T) {
	j, _, err := openJournal(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer j.file.Close()
	j.most = 10
	undo := &record{Exec: "w#a", Effect: entry.EffectCompensable, Undo: &Call{Tool: "del"}, Values: values{}}
	if err := j.begin(undo); err != nil {
		t.Fatal(err)
	}
	if err := j.begin(&record{Exec: "w#b", Effect: entry.EffectCompensable, Undo: &Call{Tool: "del"}, Values: values{}}); err == nil || !strings.Contains(err.Error(), "keep_days") {
		t.Errorf("full: %v", err)
	}
	if err := j.begin(&record{Exec: "w#c", Effect: entry.EffectIrrevocable}); err != nil {
		t.Error(err)
	}
}
