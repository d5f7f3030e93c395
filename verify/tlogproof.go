package verify

import (
	"bytes"
	"strconv"
	"strings"

	"recoveryledger/merkle"
)

// tlogProofHeader begins a .tlog-proof (c2sp.org/tlog-proof).
const tlogProofHeader = "c2sp.org/tlog-proof@v1\n"

// TLogProof returns the receipt without its leaf as a .tlog-proof. The leaf
// belongs beside it, as a file of its own: the format's `extra` line is neither
// authenticated nor read by every parser at this length. The error is a
// [*FormatError].
func (r Receipt) TLogProof() ([]byte, error) {
	if err := CheckLimits("tlog-proof", r.Proof, r.Head); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(tlogProofHeader)
	b.WriteString("index " + strconv.FormatUint(r.Index, 10) + "\n")
	for _, h := range r.Proof {
		b.WriteString(h.String() + "\n")
	}
	b.WriteString("\n" + r.Head)
	return b.Bytes(), nil
}

// ParseTLogProof reads a .tlog-proof into a receipt whose leaf is to be set
// from beside it. It accepts exactly what [Receipt.TLogProof] makes: an `extra`
// line is refused, as are other spellings of numbers and hashes. The error is a
// [*FormatError].
func ParseTLogProof(data []byte) (Receipt, error) {
	refuse := func(format string, args ...any) (Receipt, error) {
		return Receipt{}, Malformed("tlog-proof", format, args...)
	}
	if len(data) > MaxReceipt {
		return refuse("%d bytes, the limit is %d", len(data), MaxReceipt)
	}
	rest, ok := strings.CutPrefix(string(data), tlogProofHeader)
	if !ok {
		return refuse("the first line is not %q", strings.TrimSuffix(tlogProofHeader, "\n"))
	}
	proof, head, ok := strings.Cut(rest, "\n\n")
	if !ok {
		return refuse("no empty line before the tree head")
	}
	lines := strings.Split(proof, "\n")
	if strings.HasPrefix(lines[0], "extra ") {
		return Receipt{}, Malformed("tlog-proof", "an extra line, which nothing authenticates").
			WithRemedy("take the line out, and put the leaf beside the proof")
	}
	number, ok := strings.CutPrefix(lines[0], "index ")
	index, _ := strconv.ParseUint(number, 10, 64) // a text that is no number is written differently
	if !ok || strconv.FormatUint(index, 10) != number {
		return refuse("%.60q is not index and a decimal number without leading zeros", lines[0])
	}
	r := Receipt{Index: index, Head: head, Proof: []merkle.Hash{}}
	for _, line := range lines[1:] {
		h, err := merkle.ParseHash(line)
		if err != nil {
			return refuse("%v", err)
		}
		r.Proof = append(r.Proof, h)
	}
	return r, CheckLimits("tlog-proof", r.Proof, r.Head)
}
