package witness_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// fetchEvidence reads what a witness serves against a log.
func fetchEvidence(t *testing.T, url string) (page witness.Evidence) {
	t.Helper()
	response, err := http.Get(url + "/v1/evidence")
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	must(t, json.Unmarshal(body, &page))
	return page
}

// TestAForkConvicts has a ledger fork at each size, and ask a witness for a cosignature on
// the other history, with the proofs that its own tree gives. What the witness then serves
// convicts the ledger before whoever has its root. Behind a power of two the proof has no
// root of the older size: nothing convicts there but two roots of one size.
func TestAForkConvicts(t *testing.T) {
	for before := uint64(1); before <= 9; before++ {
		for after := before; after <= 12; after++ {
			s, fork := newSource(t), newSource(t)
			for i := range after {
				leaf := strconv.FormatUint(i, 10)
				if i < before {
					s.add(leaf)
				}
				if i == before-1 {
					leaf = "another"
				}
				fork.add(leaf)
			}
			w, url := s.serve(t.TempDir(), "w.example/1")
			_, err := w.Cosign(s.request(0))
			must(t, err)
			if list := fetchEvidence(t, url).Evidence; len(list) != 0 {
				t.Fatalf("evidence before there is a fork: %+v", list)
			}
			_, err = w.Cosign(fork.request(before))
			_, convicted := errors.AsType[*verify.ForkError](err)
			want := before == after || before&(before-1) != 0
			list := fetchEvidence(t, url).Evidence
			if !errors.Is(err, witness.ErrProof) || convicted != want || len(list) != map[bool]int{true: 1}[want] {
				t.Errorf("sizes %d and %d: %v, and %d documents", before, after, err, len(list))
				continue
			}
			if !want {
				continue
			}
			var m verify.Material
			must(t, m.AddEvidence(list[0]))
			if _, err := s.root().Verify(m); !isFork(err) {
				t.Errorf("sizes %d and %d: the evidence shows %v", before, after, err)
			}
		}
	}
}

func isFork(err error) bool {
	_, ok := errors.AsType[*verify.ForkError](err)
	return ok
}

// TestAccusationsAreKept holds a witness to its evidence: a proof that leads nowhere accuses
// nobody, the first fork is enough, a restart serves and sends it again, and a damaged file
// is told.
func TestAccusationsAreKept(t *testing.T) {
	s, fork, other := newSource(t, "a", "b", "c"), newSource(t, "a", "X", "c", "d"), newSource(t, "a", "Y", "c", "d", "e")
	dir := t.TempDir()
	config := &witness.Config{Dir: dir, Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}}
	w, err := witness.Open(config)
	must(t, err)
	_, err = w.Cosign(s.request(0))
	must(t, err)
	spoilt := fork.request(3)
	spoilt.Proof[1] = spoilt.Proof[0]
	if _, err := w.Cosign(spoilt); !errors.Is(err, witness.ErrProof) || isFork(err) {
		t.Errorf("a spoilt proof: %v", err)
	}
	if list, err := w.Evidence(origin); err != nil || len(list) != 0 {
		t.Errorf("a spoilt proof accuses: %+v %v", list, err)
	}
	for _, forked := range []*source{fork, other, fork} {
		if _, err := w.Cosign(forked.request(3)); !isFork(err) {
			t.Errorf("a fork: %v", err)
		}
	}
	first := *<-w.Accused()
	if len(w.Accused()) != 0 {
		t.Error("a second fork is sent")
	}
	must(t, w.Close())
	w, err = witness.Open(config)
	must(t, err)
	if again := <-w.Accused(); again.Older != first.Older || again.Newer != first.Newer {
		t.Errorf("after a restart: %+v, before: %+v", again, first)
	}
	if list, err := w.Evidence("another.example/log"); err != nil || len(list) != 0 {
		t.Errorf("of another log: %+v %v", list, err)
	}
	must(t, w.Close())
	files, err := filepath.Glob(filepath.Join(dir, "evidence-fork-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	must(t, os.WriteFile(files[0], []byte("{"), 0o600))
	if _, err := witness.Open(config); err == nil {
		t.Error("damaged evidence is passed over")
	}
}
