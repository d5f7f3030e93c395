package client

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Evidence yields the verified evidence that the ledger keeps against agents, the oldest first.
// Iteration ends at the first error. An object that the ledger gives a second time is an error,
// and so are more documents than a ledger keeps.
func (c *Client) Evidence(ctx context.Context) iter.Seq2[*verify.Evidence, error] {
	return func(yield func(*verify.Evidence, error) bool) {
		given := map[[sha256.Size]byte]bool{}
		for path := api.PathEvidence; path != ""; {
			page, err := get[api.EvidencePage](ctx, c, path, maxAnswer)
			if err == nil {
				err = furtherEvidence(path, page)
			}
			for i := 0; err == nil && i < len(page.Evidence); i++ {
				if err = c.checkEquivocation(ctx, &page.Evidence[i], given); err == nil && !yield(&page.Evidence[i], nil) {
					return
				}
			}
			if err != nil {
				yield(nil, fmt.Errorf("client: list evidence: %w", err))
				return
			}
			path = page.Next
		}
	}
}

// furtherEvidence checks that a list of evidence continues after the page.
func furtherEvidence(path string, page *api.EvidencePage) error {
	_, here, _ := strings.Cut(path, "?")
	there, ok := strings.CutPrefix(page.Next, api.PathEvidence+"?")
	var at, next api.EvidenceQuery
	if ok && len(page.Evidence) > 0 && api.ParseQuery(&at, here) == nil && api.ParseQuery(&next, there) == nil &&
		next.From >= at.From+uint64(len(page.Evidence)) || page.Next == "" {
		return nil
	}
	return malformed("the list goes on at %.200q", page.Next)
}

// checkEquivocation checks that evidence shows an equivocation, under a head that the client
// accepts. The object must not have been given before. checkEquivocation remembers the object.
func (c *Client) checkEquivocation(ctx context.Context, e *verify.Evidence, given map[[sha256.Size]byte]bool) error {
	var m verify.Material
	if err := m.AddEvidence(*e); err != nil {
		return err
	}
	for _, r := range m.Receipts {
		if _, err := c.believe(ctx, r.Head, nil); err != nil {
			return err
		}
	}
	report, err := c.Root().Verify(m)
	if err != nil {
		return err
	}
	if len(report.Equivocations) != 1 {
		return malformed("evidence that shows nothing of %.200q", e.Detail)
	}
	object, err := entry.Decode(e.Envelope)
	if err != nil {
		return err
	}
	of, what := report.Equivocations[0], sha256.Sum256(object.PAE())
	switch {
	case given[what]:
		return malformed("the list has an object of %s under the id %s twice", of.Principal, of.JTI)
	case len(given) == c.maxEvidence:
		return malformed("a list of more than %d documents, which no ledger keeps", c.maxEvidence)
	}
	given[what] = true
	return nil
}
