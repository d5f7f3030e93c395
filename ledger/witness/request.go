package witness

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// maxProof is the number of hashes in a consistency proof that a request may have
// (c2sp.org/tlog-witness).
const maxProof = 63

// maxRequest is the size of a request in bytes.
const maxRequest = len("old 18446744073709551615\n") + maxProof*(44+1) + 1 + verify.MaxNote

// Request asks a witness for its cosignature on a tree head: the body of add-checkpoint
// (c2sp.org/tlog-witness).
type Request struct {
	Old   uint64        // size of the head that the witness cosigned last; 0: none
	Proof []merkle.Hash // that the head of that size begins the new one; empty if Old is 0
	Note  string        // the new tree head, signed
}

// Append appends the request in its one spelling.
func (r *Request) Append(b []byte) []byte {
	b = fmt.Appendf(b, "old %d\n", r.Old)
	for _, hash := range r.Proof {
		b = append(append(b, hash.String()...), '\n')
	}
	return append(append(b, '\n'), r.Note...)
}

// parseRequest reads a request in its one spelling. The error is a
// [*verify.FormatError].
func parseRequest(body []byte) (*Request, error) {
	malformed := func(format string, args ...any) (*Request, error) {
		return nil, verify.Malformed("request", format, args...).
			WithRemedy("send: old SIZE, a line for each hash of the consistency proof, an empty line, and the signed tree head (c2sp.org/tlog-witness)")
	}
	if len(body) > maxRequest {
		return malformed("%d bytes, the limit is %d", len(body), maxRequest)
	}
	before, signed, ok := bytes.Cut(body, []byte("\n\n"))
	if !ok {
		return malformed("no empty line before the tree head")
	}
	lines := strings.Split(string(before), "\n")
	digits, ok := strings.CutPrefix(lines[0], "old ")
	old, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || strconv.FormatUint(old, 10) != digits {
		return malformed("the first line is %.80q", lines[0])
	}
	if len(lines)-1 > maxProof {
		return malformed("a proof of %d hashes, the limit is %d", len(lines)-1, maxProof)
	}
	r := &Request{Old: old, Note: string(signed)}
	for i, line := range lines[1:] {
		hash, err := merkle.ParseHash(line)
		if err != nil {
			return malformed("hash %d of the proof: %v", i, err)
		}
		r.Proof = append(r.Proof, hash)
	}
	return r, nil
}
