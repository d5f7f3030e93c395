package main

import (
	"bytes"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/verify"
)

// TestAFileOfEvidenceIsBounded: arl log evidence --out writes no file that arl verify
// refuses to read, and without --out it keeps nothing.
func TestAFileOfEvidenceIsBounded(t *testing.T) {
	one := &verify.Evidence{Kind: verify.EvidenceEquivocation, Detail: "a claim"}
	documents := bytes.NewBuffer(make([]byte, 0, verify.MaxFile+1))
	if err := appendDocument(documents, one, ""); err != nil || documents.Len() > 0 {
		t.Fatalf("%d bytes without --out, %v", documents.Len(), err)
	}
	if err := appendDocument(documents, one, "out.ndjson"); err != nil || !strings.HasSuffix(documents.String(), "}\n") {
		t.Fatalf("%q, %v", documents, err)
	}
	line := documents.Len()
	for name, tc := range map[string]struct {
		size int
		full bool
	}{"at the limit": {verify.MaxFile - line, false}, "past it": {verify.MaxFile - line + 1, true}} {
		documents.Reset()
		documents.Write(make([]byte, tc.size))
		err := appendDocument(documents, one, "out.ndjson")
		if (err != nil) != tc.full || tc.full && !strings.Contains(err.Error(), "--out out.ndjson: the evidence has more than") {
			t.Errorf("%s: %v, code %d", name, err, exit.Code(err))
		}
	}
}
