package recovery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Draw returns a number that depends on its arguments alone and looks random:
// the first 8 bytes, big-endian, of HMAC-SHA256 with the seed's 8 bytes as key
// over "purpose|case|attempt|epoch" (protocol.md, section 10). Everything that
// chance decides about a case is drawn with it, so that it can be repeated.
func Draw(seed int64, purpose, caseID string, attempt, epoch int64) uint64 {
	mac := hmac.New(sha256.New, binary.BigEndian.AppendUint64(nil, uint64(seed)))
	text := make([]byte, 0, 128)
	text = append(append(text, purpose...), '|')
	text = append(append(text, caseID...), '|')
	text = strconv.AppendInt(text, attempt, 10)
	text = strconv.AppendInt(append(text, '|'), epoch, 10)
	mac.Write(text)
	var sum [sha256.Size]byte
	return binary.BigEndian.Uint64(mac.Sum(sum[:0]))
}
