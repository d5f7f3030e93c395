package witness_test

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// post sends a request, and returns the status and the body.
func post(t *testing.T, url string, body []byte) (int, string, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/add-checkpoint", strings.NewReader(string(body)))
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	var b strings.Builder
	_, err = io.Copy(&b, response.Body)
	must(t, err)
	return response.StatusCode, b.String(), response.Header.Get("Content-Type")
}

// TestCosign has a witness cosign a log that grows, with both keys, and shows its
// newest head.
func TestCosign(t *testing.T) {
	s := newSource(t, "a", "b", "c")
	w, url := s.serve(t.TempDir(), "w.example/1")
	var verifiers []note.Verifier
	for _, key := range w.Keys() {
		verifier, err := cosign.NewVerifierForCosignatureV1(key)
		must(t, err)
		verifiers = append(verifiers, verifier)
	}
	old := uint64(0)
	for _, more := range [][]string{nil, nil, {"d"}, {"e", "f", "g"}} {
		s.add(more...)
		q := s.request(old)
		status, lines, _ := post(t, url, q.Append(nil))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, lines)
		}
		opened, err := note.Open([]byte(q.Note+lines), note.VerifierList(verifiers...))
		if err != nil || len(opened.Sigs) != 2 {
			t.Fatalf("%v: %+v", err, opened)
		}
		old = s.Newest().Size
	}
	if head := w.Head(origin); !strings.HasPrefix(head, s.Newest().Note) {
		t.Errorf("the witness shows %q", head)
	}
}

// TestRefusals names what a witness refuses, with the status that c2sp.org/tlog-witness
// gives it. Of two faults the one that the specification checks first counts.
func TestRefusals(t *testing.T) {
	s := newSource(t, "a", "b", "c")
	_, url := s.serve(t.TempDir(), "w.example/1")
	if status, body, _ := post(t, url, s.request(0).Append(nil)); status != http.StatusOK {
		t.Fatal(status, body)
	}
	s.add("d", "e")
	other := newSource(t, "a", "b", "X", "d", "e")
	shorter := newSource(t, "a", "b", "X")
	good := s.request(3)
	with := func(change func(*witness.Request)) []byte {
		q := *good
		change(&q)
		return q.Append(nil)
	}
	skey, _, err := note.GenerateKey(rand.Reader, origin)
	must(t, err)
	strange, err := note.NewSigner(skey)
	must(t, err)
	for name, test := range map[string]struct {
		body   []byte
		status int
		says   string
	}{
		"no empty line":           {[]byte("old 3\n"), 400, "empty line"},
		"old in another spelling": {[]byte(strings.Replace(string(good.Append(nil)), "old 3", "old 03", 1)), 400, "old 03"},
		"a hash that is none":     {[]byte(strings.Replace(string(good.Append(nil)), "old 3\n", "old 3\nabc\n", 1)), 400, "hash 0"},
		"64 hashes":               {[]byte(strings.Replace(string(good.Append(nil)), "old 3\n", "old 3\n"+strings.Repeat(good.Proof[0].String()+"\n", 64), 1)), 400, "limit is 63"},
		"too long":                {append(good.Append(nil), make([]byte, 1<<20)...), 400, "too large"},
		"an unknown log":          {with(func(q *witness.Request) { q.Note = "x" + q.Note }), 404, "no log"},
		"a stranger's signature":  {with(func(q *witness.Request) { q.Note = signText(t, headText(s.Newest().Head), strange) }), 403, "no known key"},
		"an extension line":       {with(func(q *witness.Request) { q.Note = signText(t, headText(s.Newest().Head)+"more\n", s.signer) }), 400, "extension"},
		"old above the head":      {with(func(q *witness.Request) { q.Old = 6 }), 400, "above"},
		"old below the newest":    {with(func(q *witness.Request) { q.Old, q.Proof = 2, nil }), 409, "3\n"},
		"old is none":             {with(func(q *witness.Request) { q.Old, q.Proof = 0, nil }), 409, "3\n"},
		"no proof":                {with(func(q *witness.Request) { q.Proof = nil }), 422, "continue"},
		"a fork":                  {other.request(3).Append(nil), 422, "continue"},
		"a fork of one size":      {shorter.request(3).Append(nil), 409, "3\n"},
	} {
		status, body, media := post(t, url, test.body)
		if status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %q, want %d with %q", name, status, body, test.status, test.says)
		}
		if isSize := media == "text/x.tlog.size"; isSize != (status == http.StatusConflict) {
			t.Errorf("%s: status %d of type %s", name, status, media)
		}
	}
	if status, body, _ := post(t, url, good.Append(nil)); status != http.StatusOK {
		t.Errorf("after all that: %d %s", status, body)
	}
}

// TestWitnessIsOpenedAgain holds a witness to what it cosigned before it ended, and
// refuses to begin one whose record is lost, damaged or another's.
func TestWitnessIsOpenedAgain(t *testing.T) {
	s := newSource(t, "a", "b", "c")
	dir := t.TempDir()
	config := &witness.Config{Dir: dir, Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}}
	w, err := witness.Open(config)
	must(t, err)
	if _, err := witness.Open(config); !errors.Is(err, witness.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	_, err = w.Cosign(s.request(0))
	must(t, err)
	must(t, w.Close())
	w, err = witness.Open(config)
	must(t, err)
	fork := newSource(t, "a", "b", "X", "d")
	if _, err := w.Cosign(fork.request(3)); !errors.Is(err, witness.ErrProof) {
		t.Errorf("a fork after a restart: %v", err)
	}
	if size, ok := errors.AsType[*witness.SizeError](second(w.Cosign(s.request(0)))); !ok || size.Size != 3 {
		t.Errorf("from the beginning: %v", size)
	}
	must(t, w.Close())
	if _, err := w.Cosign(s.request(3)); !errors.Is(err, witness.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	path := filepath.Join(dir, "witness.json")
	content, err := os.ReadFile(path)
	must(t, err)
	for name, damaged := range map[string]string{
		"empty": "", "half": string(content[:len(content)/2]), "of nobody": `{"name":"w.example/1","heads":{"` + origin + `":"x"}}`,
		"without heads":  `{"name":"w.example/1"}`,
		"of another":     strings.Replace(string(content), "w.example/1", "w.example/2", 1),
		"a flipped size": strings.Replace(string(content), origin+`\n3\n`, origin+`\n2\n`, 1),
	} {
		must(t, os.WriteFile(path, []byte(damaged), 0o600))
		if _, err := witness.Open(config); !errors.Is(err, witness.ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.WriteFile(path, content, 0o600))
	must(t, os.Rename(filepath.Join(dir, "witness.key"), filepath.Join(dir, "away")))
	if _, err := witness.Open(config); !errors.Is(err, witness.ErrState) {
		t.Errorf("without its key: %v", err)
	}
	must(t, os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "witness.key")))
	must(t, os.Remove(path))
	if _, err := witness.Open(config); !errors.Is(err, witness.ErrState) {
		t.Errorf("without its record: %v", err)
	}
	if _, err := witness.Open(&witness.Config{Dir: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a name: %v", err)
	}
}

func second(_ string, err error) error { return err }

// FuzzParseRequest shows that a request that is read is written as it was.
func FuzzParseRequest(f *testing.F) {
	s := newSource(f, "a", "b", "c")
	f.Add(s.request(0).Append(nil))
	s.add("d")
	f.Add(s.request(3).Append(nil))
	f.Add([]byte("old 0\n\n"))
	f.Add([]byte("old 18446744073709551616\n\nx"))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := witness.ParseRequest(body)
		if err != nil {
			if _, ok := errors.AsType[*verify.FormatError](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if again := q.Append(nil); string(again) != string(body) {
			t.Fatalf("%q became %q", body, again)
		}
	})
}
