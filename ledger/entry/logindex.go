package entry

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"recoveryledger/merkle"
)

// IndexAlgorithm names the rules IDX-1 and IDX-2 (docs/index.md).
const IndexAlgorithm = "index/1"

// LogIndex commits to the index over the first Size entries of the log: to the
// lists of all subjects (IDX-3). Root follows from those entries alone.
type LogIndex struct {
	Header
	Algorithm string      `json:"algorithm"`
	Size      uint64      `json:"size"`     // entries that the index covers
	Root      merkle.Hash `json:"root"`     // of the prefix tree over the subjects
	Subjects  uint64      `json:"subjects"` // their number
}

// IndexJTI returns the jti of the index entry over the first size entries of the
// log of an origin: a UUID of version 8 (RFC 9562) made of both. A coordinator
// that was stopped and begins again writes no second entry for one size (REG-2).
func IndexJTI(origin string, size uint64) string {
	return derivedJTI(binary.BigEndian.AppendUint64(append([]byte("index"), origin...), size))
}

// derivedJTI returns the UUID of version 8 that stands for some bytes.
func derivedJTI(of []byte) string {
	sum := sha256.Sum256(of)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// Kind implements [Body].
func (*LogIndex) Kind() Kind { return KindIndex }

func (x *LogIndex) check() error {
	return first(checkOneOf("algorithm", x.Algorithm, IndexAlgorithm), refuseIf(x.Size == 0, "size", "0, want a positive number"))
}
