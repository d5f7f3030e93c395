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

// linksWanted reads the one parameter of what answers a receipt.
func linksWanted(rawQuery string) (bool, error) {
	if rawQuery == "" {
		return false, nil
	}
	p := parseParams(rawQuery, "links")
	return p.flag("links"), p.err()
}

// answerLinks writes a receipt and, each on a line, those of the policies and
// agent entries that let its signer in, all under one tree head: saved as it is,
// the answer is all that a verifier needs beside the root.
func (s *Server) answerLinks(c echo.Context, status int, receipt *verify.Receipt) error {
	e, _, err := entry.DecodeLeaf(receipt.Leaf)
	if err != nil {
		return err
	}
	size, err := sizeOf(receipt.Head)
	if err != nil {
		return err
	}
	out := append(appendReceipt(nil, receipt), '\n')
	for _, link := range s.coord.View().Chain.LinksFor(e.Header.Iss) {
		if link.Index >= size || link.Index == receipt.Index {
			continue
		}
		proof, err := s.log.Inclusion(link.Index, size)
		if err != nil {
			return err
		}
		out = appendReceipt(out, &verify.Receipt{Leaf: link.Leaf, Index: link.Index, Proof: proof, Head: receipt.Head})
		out = append(out, '\n')
	}
	return s.answer(c, status, api.MediaNDJSON, out)
}

// sizeOf reads the size off a tree head that the ledger has signed.
func sizeOf(note string) (uint64, error) {
	if lines := strings.SplitN(note, "\n", 3); len(lines) == 3 {
		return strconv.ParseUint(lines[1], 10, 64)
	}
	return 0, fmt.Errorf("server: %.80q is no tree head", note)
}
