package server

import (
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// The write path makes its answers by hand. Tests compare them with the encoder's output for
// the types.

// appendReceipt appends the receipt as [verify.Receipt.Encode] writes it.
func appendReceipt(dst []byte, r *verify.Receipt) []byte {
	dst = append(dst, `{"leaf":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, r.Leaf)
	dst = append(dst, `","index":`...)
	dst = strconv.AppendUint(dst, r.Index, 10)
	dst = append(dst, `,"proof":`...)
	dst = appendProof(dst, r.Proof)
	dst = append(dst, `,"head":`...)
	dst = appendText(dst, r.Head)
	return append(dst, '}')
}

// appendBatchHead appends the first line of the answer to a batch.
func appendBatchHead(dst []byte, head string) []byte {
	dst = append(dst, `{"head":`...)
	dst = appendText(dst, head)
	return append(dst, '}', '\n')
}

// appendBatchLine appends a further line.
func appendBatchLine(dst []byte, l *api.BatchLine) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendUint(dst, l.Index, 10)
	dst = append(dst, `,"registered_at":`...)
	dst = strconv.AppendInt(dst, l.RegisteredAt, 10)
	if l.Duplicate {
		dst = append(dst, `,"duplicate":true`...)
	}
	dst = append(dst, `,"proof":`...)
	dst = appendProof(dst, l.Proof)
	return append(dst, '}', '\n')
}

func appendProof(dst []byte, path []merkle.Hash) []byte {
	dst = append(dst, '[')
	for i := range path {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, path[i][:])
		dst = append(dst, '"')
	}
	return append(dst, ']')
}

// appendText appends a JSON string. It replaces invalid UTF-8, as the encoder does. A tree
// head is always valid UTF-8.
func appendText(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}
