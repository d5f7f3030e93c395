package server

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// answerLinks writes a receipt and its links, one on each line. The links are the receipts of
// the policies and agent entries that let the signer in. A verifier needs only the answer and
// the root.
func (s *Server) answerLinks(c echo.Context, status int, receipt *verify.Receipt) error {
	receipts, err := s.withLinks(receipt)
	if err != nil {
		return err
	}
	var out []byte
	for i := range receipts {
		out = append(appendReceipt(out, &receipts[i]), '\n')
	}
	return s.answer(c, status, api.MediaNDJSON, out)
}

// withLinks returns a receipt and the receipts of the policies and agent entries that let its
// signer in. All are under the tree head of the first.
func (s *Server) withLinks(receipt *verify.Receipt) ([]verify.Receipt, error) {
	e, _, err := entry.DecodeLeaf(receipt.Leaf)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(receipt.Head)
	if err != nil {
		return nil, err
	}
	all := []verify.Receipt{*receipt}
	for _, link := range s.coord.View().Chain.LinksFor(e.Header.Iss) {
		if link.Index >= size || link.Index == receipt.Index {
			continue
		}
		proof, err := s.log.Inclusion(link.Index, size)
		if err != nil {
			return nil, err
		}
		all = append(all, verify.Receipt{Leaf: link.AppendLeaf(nil), Index: link.Index, Proof: proof, Head: receipt.Head})
	}
	return all, nil
}

// sizeOf reads the size from a tree head that the ledger has signed.
func sizeOf(note string) (uint64, error) {
	if lines := strings.SplitN(note, "\n", 3); len(lines) == 3 {
		return strconv.ParseUint(lines[1], 10, 64)
	}
	return 0, fmt.Errorf("server: %.80q is not a tree head", note)
}
