package witness_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// FuzzState opens a witness beside other records: what it says that it cosigned, it did cosign.
func FuzzState(f *testing.F) {
	s, dir := newSource(f, "a", "b"), f.TempDir()
	config := &witness.Config{Dir: dir, Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}}
	w, err := witness.Open(config)
	must(f, err)
	path := filepath.Join(dir, "witness.json")
	var said []string // each head with the cosignatures
	keep := func() {
		content, err := os.ReadFile(path)
		must(f, err)
		f.Add(content)
		said = append(said, w.Head(origin))
	}
	keep()
	old := uint64(0)
	for range 3 {
		_, err := w.Cosign(s.request(old))
		must(f, err)
		keep()
		old = s.Newest().Size
		s.add("c")
	}
	must(f, w.Close())
	f.Add([]byte(`{"name":"w.example/1","heads":{"` + origin + `":"x"}}`))
	f.Add([]byte(`{"name":"w.example/2","heads":{}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		must(t, os.WriteFile(path, content, 0o600))
		w, err := witness.Open(config)
		if err != nil {
			if !errors.Is(err, witness.ErrState) {
				t.Fatal(err)
			}
			return
		}
		head := w.Head(origin)
		text, _, _ := strings.Cut(head, "\n\n")
		if !slices.ContainsFunc(said, func(one string) bool { return head == one || text != "" && strings.HasPrefix(one, text+"\n\n") }) {
			t.Errorf("it never cosigned %q", head)
		}
		must(t, w.Close())
	})
}

// FuzzKeptEvidence reads the file of a witness with evidence: it is refused, or evidence that is
// read from its own text again.
func FuzzKeptEvidence(f *testing.F) {
	s, fork := newSource(f, "a", "b", "c"), newSource(f, "a", "b", "X")
	dir := f.TempDir()
	w, err := witness.Open(&witness.Config{Dir: dir, Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(f, err)
	f.Cleanup(func() { must(f, w.Close()) })
	_, err = w.Cosign(s.request(0))
	must(f, err)
	if _, err := w.Cosign(fork.request(3)); err == nil {
		f.Fatal("a fork is cosigned")
	}
	files, err := filepath.Glob(filepath.Join(dir, "evidence-*"))
	must(f, err)
	if len(files) != 1 {
		f.Fatalf("evidence: %q", files)
	}
	content, err := os.ReadFile(files[0])
	must(f, err)
	f.Add(content)
	f.Add(content[:len(content)/2])
	f.Add([]byte(`{"evidence":"rumour","detail":""}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		must(t, os.WriteFile(files[0], content, 0o600))
		list, err := w.Evidence(origin)
		if err != nil {
			return
		}
		if len(list) != 1 {
			t.Fatalf("%d pieces of evidence", len(list))
		}
		text, err := json.Marshal(list[0], json.Deterministic(true))
		must(t, err)
		var m verify.Material
		if err := m.Add("evidence", text); err != nil {
			if _, ok := errors.AsType[*verify.FormatError](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
		}
	})
}

// FuzzKeptHead begins rounds with another file of the witnessed head: a head counts only with the
// quorum's cosignatures, and none of another history does.
func FuzzKeptHead(f *testing.F) {
	s := newSource(f, "a", "b", "c")
	w, err := witness.Open(&witness.Config{Dir: f.TempDir(), Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(f, err)
	f.Cleanup(func() { must(f, w.Close()) })
	_, err = w.Cosign(s.request(0))
	must(f, err)
	good := w.Head(origin)
	f.Add([]byte(good))
	f.Add([]byte(s.Newest().Note))
	f.Add([]byte(good[:len(good)-20]))
	policy := policyOf(1, named{"w1", w.Keys()[0], "http://127.0.0.1:1"})
	path := filepath.Join(f.TempDir(), "witnessed")
	f.Fuzz(func(t *testing.T, content []byte) {
		s.tb = t
		must(t, os.WriteFile(path, content, 0o600))
		r, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, Terms: terms(policy), Path: path})
		must(t, err)
		head, _, _ := r.Witnessed()
		if head.Note == "" {
			return
		}
		quorum, err := s.root().Quorum(policy)
		must(t, err)
		if _, ok := quorum.Since(head.Note, 1<<40); !ok || head.Head != s.Newest().Head {
			t.Errorf("%q counts", head.Note)
		}
	})
}
