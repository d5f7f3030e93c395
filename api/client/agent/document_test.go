package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// TestDocuments: what was saved is read, and nothing else.
func TestDocuments(t *testing.T) {
	want := identity{Origin: "o", Agent: "a", MadeAt: 7, Lost: true, Horizon: 9}
	data, err := encode("agent", &want)
	if err != nil {
		t.Fatal(err)
	}
	var got identity
	if err := decode("agent", data, &got); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			if err := decode("agent", changed, new(identity)); !isDamage(err) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if err := decode("agent", data[:i], new(identity)); !isDamage(err) {
			t.Fatalf("%d bytes of it: %v", i, err)
		}
	}
	for name, changed := range map[string][]byte{
		"another name": seal("work-1", []byte("{}")), "more": append(bytes.Clone(data), ' '), "another version": bytes.Replace(data, []byte("/1 "), []byte("/2 "), 1),
		"another form": seal("agent", []byte(`{ }`)), "unknown member": seal("agent", []byte(`{"x":1}`)), "too large": make([]byte, MaxDocument+1),
	} {
		if err := decode("agent", changed, new(identity)); !isDamage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := unseal("x", seal("x", make([]byte, MaxDocument-len(seal("x", nil))))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func isDamage(err error) bool {
	damage, ok := errors.AsType[*DamageError](err)
	return ok && damage.Name != "" && strings.Contains(err.Error(), damage.Cause)
}

// TestStoreDir: a directory keeps what it was given, for one process.
func TestStoreDir(t *testing.T) {
	path := t.TempDir()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	for _, name := range []string{"", "../x", "A", "a.b", strings.Repeat("a", 129)} {
		if err := d.Save(name, nil); err == nil {
			t.Errorf("saved as %q", name)
		}
	}
	for _, text := range []string{"one", "two"} {
		if err := d.Save("work-1", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Load("work-1"); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if names, err := d.Names(); err != nil || len(names) != 1 || names[0] != "work-1" {
		t.Errorf("%v, %v", names, err)
	}
	if err := errors.Join(d.Close()); err != nil {
		t.Error(err)
	}
}

// TestReportLimits: at the limit, and one past it.
func TestReportLimits(t *testing.T) {
	report := []byte(`{"status":"done"}`)
	at := slices.Concat(report, bytes.Repeat([]byte(" "), MaxReport-len(report)))
	if _, err := decodeReport(at); err != nil {
		t.Error(err)
	}
	if _, err := decodeReport(append(at, ' ')); !errors.Is(err, ErrReport) {
		t.Error(err)
	}
	r := Report{Status: Failed, Residual: strings.Repeat("x", entry.MaxText), Evidence: make([]entry.Evidence, MaxEvidence)}
	if err := r.check(Restore); err != nil {
		t.Error(err)
	}
}

// FuzzDocument reads undertakings: what is read is what would be written, and is
// sound.
func FuzzDocument(f *testing.F) {
	w := &work{Name: "work-1-2-restore", Hook: Restore, Phase: started, Members: []CallMember{{Exec: "a#b"}}}
	data, err := encode(w.Name, w)
	if err != nil {
		f.Fatal(err)
	}
	content, _ := unseal(w.Name, data)
	f.Add(content)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		sealed := seal(w.Name, content)
		got, err := takeWork(w.Name, sealed)
		if err != nil {
			if !isDamage(err) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if got == nil {
			return
		}
		again, err := encode(w.Name, got)
		if err != nil || !bytes.Equal(again, sealed) {
			t.Fatalf("%q became %q, %v", sealed, again, err)
		}
	})
}

// FuzzReport reads reports: nothing panics, and what is none is refused.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"status":"done","digest":"sha256:00","evidence":[{"digest":"sha256:00"}]}`))
	f.Add([]byte(`{"status":"failed","residual":"x"} `))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeReport(data)
		if (err == nil) != (r != nil) || err != nil && !errors.Is(err, ErrReport) {
			t.Fatalf("%v, %v", r, err)
		}
	})
}

// TestNoteFork: what somebody else has seen stops the agents of that ledger, also
// where the store says nothing of whose it is, and no others. What was noted first
// stays. An error with one head is refused.
func TestNoteFork(t *testing.T) {
	root := verify.Root{Origin: "one"}
	if d, err := OpenDir(t.TempDir()); err != nil {
		t.Fatal(err)
	} else if err := NoteFork(d, root, &verify.ForkError{First: "a", Detail: "one head"}); err == nil || !strings.Contains(err.Error(), "pass the error with both") {
		t.Errorf("one head: %v", err)
	}
	noted := func(prepare func(*Dir) error, forks ...string) *ForkError {
		d, err := OpenDir(t.TempDir())
		if err == nil {
			err = prepare(d)
		}
		for _, first := range forks {
			if err == nil {
				err = NoteFork(d, root, &verify.ForkError{First: first, Second: "b", Detail: "two heads"})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := d.Load(docFork)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		fork, ok := errors.AsType[*ForkError](readFork(data))
		if err != nil || !ok {
			t.Fatalf("%q: %v", data, err)
		}
		return fork
	}
	made := func(root verify.Root) func(*Dir) error {
		return func(d *Dir) error { return Init(d, root, "worker", 1) }
	}
	for name, prepare := range map[string]func(*Dir) error{
		"of this ledger": made(root), "empty": func(*Dir) error { return nil },
		"damaged": func(d *Dir) error { return d.Save(docAgent, []byte("x")) },
	} {
		if fork := noted(prepare, "a", "later"); fork == nil || fork.Older != "a" || fork.Newer != "b" || fork.Detail != "two heads" {
			t.Errorf("%s: %v", name, fork)
		}
	}
	if fork := noted(made(verify.Root{Origin: "other"}), "a"); fork != nil {
		t.Errorf("of another ledger: %v", fork)
	}
}
