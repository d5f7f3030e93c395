package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/net/html"

	"recoveryledger/api/console"
	"recoveryledger/merkle"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
	"recoveryledger/verify"
)

// noted is a log whose tree heads have notes.
type noted struct{ shown }

func (n noted) Standing() console.Standing {
	at := n.shown.Standing()
	at.Note = "note\n"
	return at
}

// TestReceipts downloads what a browser verifies an entry by: the entry's receipt first, then those
// of the genesis policy and of the agent entry that let its signer in.
func TestReceipts(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	_, key, err := note.GenerateKey(nil, "ledger.example/test")
	if err != nil {
		t.Fatal(err)
	}
	pinned := verify.Root{Origin: "ledger.example/test", LedgerKeys: []string{key}, Genesis: l.Entries[0].LeafHash()}
	c, err := console.New(&console.Config{Source: noted{shown{l}}, Origin: pinned.Origin, Root: func() (verify.Root, error) { return pinned, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, c, "/root.json"); status != http.StatusOK || !strings.Contains(body, pinned.Genesis.String()) {
		t.Errorf("the root: %d %s", status, body)
	}
	path := "/log/" + decimal(id)
	if _, body := get(t, c, path); !strings.Contains(body, `data-receipts="`+path+`/receipts"`) {
		t.Errorf("the page of the entry has no button: %s", body)
	}
	_, body := get(t, c, path+"/receipts")
	var indexes []uint64
	for line := range strings.Lines(body) {
		var r verify.Receipt
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if err := merkle.CheckInclusion(r.Index, merkle.HashLeaf(r.Leaf), l.Head(len(l.Leaves)), r.Proof); err != nil {
			t.Errorf("entry %d: %v", r.Index, err)
		}
		indexes = append(indexes, r.Index)
	}
	if len(indexes) != 3 || indexes[0] != id || indexes[1] != 0 || indexes[2] != 1 {
		t.Errorf("receipts of %d, want %d, 0 and 1", indexes, id)
	}
	for _, path := range []string{"/log/99/receipts", "/log/x/receipts", "/log/99/tlog-proof", "/log/99/leaf", "/log/x/leaf", "/assets/verify/js.go", "/assets/verify/none.js"} {
		if w, _ := get(t, c, path); w != http.StatusNotFound && w != http.StatusBadRequest {
			t.Errorf("%s: %d", path, w)
		}
	}
	if status, body := get(t, c, "/assets/verify/index.js"); status != http.StatusOK || !strings.Contains(body, "export") {
		t.Errorf("the verifier: %d %s", status, body)
	}
	plain := pages(t, l, "")
	if status, _ := get(t, plain, "/root.json"); status != http.StatusNotFound {
		t.Errorf("a root that nobody gave: %d", status)
	}
	if _, body := get(t, plain, path); strings.Contains(body, "data-receipts") {
		t.Errorf("a button without a root")
	}
}

// TestTLogProof downloads the .tlog-proof of an entry and its leaf: together they prove the entry.
// The page shows the bytes under the signature, and names the command that writes the files.
func TestTLogProof(t *testing.T) {
	l := foldlog.New(t)
	at := decimal(chain(l))
	c, err := console.New(&console.Config{Source: noted{shown{l}}, Origin: "ledger.example/test"})
	if err != nil {
		t.Fatal(err)
	}
	_, proof := get(t, c, "/log/"+at+"/tlog-proof")
	_, leaf := get(t, c, "/log/"+at+"/leaf")
	r, err := verify.ParseTLogProof([]byte(proof))
	if err != nil {
		t.Fatal(err)
	}
	if err := merkle.CheckInclusion(r.Index, merkle.HashLeaf([]byte(leaf)), l.Head(len(l.Leaves)), r.Proof); err != nil || decimal(r.Index) != at {
		t.Errorf("entry %d: %v", r.Index, err)
	}
	_, body := get(t, c, "/log/"+at)
	links := webpage.Check(t, "/log", body)
	signed := string(l.Entries[r.Index].PAE())
	for _, want := range []string{"arl log proof --index " + at + " --format tlog-proof --out " + at + ".tlog-proof", signed, fmt.Sprintf("The %d bytes", len(signed))} {
		if !strings.Contains(html.UnescapeString(body), want) {
			t.Errorf("the page does not say %q: %s", want, body)
		}
	}
	for _, link := range []string{"/log/" + at + "/tlog-proof", "/log/" + at + "/leaf"} {
		if !slices.Contains(links, link) {
			t.Errorf("the page does not link %s", link)
		}
	}
	if _, body := get(t, pages(t, l, ""), "/log/"+at); strings.Contains(body, "/leaf") {
		t.Error("a proof without a signed tree head")
	}
}
