package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Registration is an entry that the log has taken, with its receipt.
type Registration struct {
	verify.Receipt
	RegisteredAt int64 // Unix milliseconds; the ledger's word
	Duplicate    bool  // whether the entry was in the log before
}

// Submit registers a signed entry and returns its verified receipt. If the ledger refuses the
// entry, the error is an [*api.Problem], and the entry is not registered. After any other error
// the entry may be registered: submit it again.
func (c *Client) Submit(ctx context.Context, e *entry.Entry) (*Registration, error) {
	r, err := c.do(ctx, call{
		method: http.MethodPost, path: api.PathEntries, mediaType: api.MediaJSON, body: e.AppendEnvelope(nil), limit: verify.MaxReceipt,
	})
	if err != nil {
		return nil, err
	}
	receipt, err := verify.DecodeReceipt(r.body)
	if err != nil {
		return nil, err
	}
	registered, err := c.registered(ctx, []*entry.Entry{e}, []Registration{{Receipt: receipt, Duplicate: r.status == http.StatusOK}})
	if err != nil {
		return nil, err
	}
	return &registered[0], nil
}

// registered verifies receipts under one head, and checks that they are of the sent entries.
func (c *Client) registered(ctx context.Context, sent []*entry.Entry, got []Registration) ([]Registration, error) {
	receipts := make([]verify.Receipt, len(got))
	for i := range got {
		receipts[i] = got[i].Receipt
	}
	proven, err := c.include(ctx, receipts, c.accept)
	if err != nil {
		return nil, err
	}
	for i := range got {
		e := proven[got[i].Index]
		if !bytes.Equal(e.PAE(), sent[i].PAE()) {
			return nil, fmt.Errorf("client: submit: %w", malformed("the receipt of %s is of another entry, %d", sent[i].Header.JTI, e.Index))
		}
		got[i].RegisteredAt = e.RegisteredAt
	}
	return got, nil
}

// prove accepts the heads of receipts, as believe does, and verifies the receipts. It returns
// their entries by index.
func (c *Client) prove(ctx context.Context, receipts []verify.Receipt) (map[uint64]verify.Entry, error) {
	return c.include(ctx, receipts, c.believe)
}

// include is prove with accept in the place of believe.
func (c *Client) include(ctx context.Context, receipts []verify.Receipt, accept func(context.Context, string, *api.HeadEvent) (merkle.Head, error)) (map[uint64]verify.Entry, error) {
	for i := range receipts {
		if i > 0 && receipts[i].Head == receipts[i-1].Head {
			continue
		}
		if _, err := accept(ctx, receipts[i].Head, nil); err != nil {
			return nil, err
		}
	}
	report, err := c.Root().Verify(verify.Material{Receipts: receipts})
	if err != nil {
		return nil, err
	}
	proven := make(map[uint64]verify.Entry, len(report.Entries))
	for _, e := range report.Entries {
		proven[e.Index] = e
	}
	return proven, nil
}

// SubmitBatch registers any number of entries in order, in as many requests as needed. It
// returns the verified receipts of the registered entries. If the ledger refuses an entry, the
// error is the [*api.Problem] of that entry, and only the entries before it are registered.
// After any other error more entries may be registered: submit the rest again.
func (c *Client) SubmitBatch(ctx context.Context, entries []*entry.Entry) ([]Registration, error) {
	all := make([]Registration, 0, len(entries))
	for attempt := 1; len(all) < len(entries); {
		got, problem, err := c.batch(ctx, entries[len(all):])
		all = append(all, got...)
		if err != nil {
			return all, err
		}
		if len(got) > 0 {
			attempt = 1
		}
		if problem != nil {
			if attempt >= c.cfg.Attempts || !c.pause(ctx, problem, attempt) {
				return all, fmt.Errorf("client: submit entry %d of %d: %w", len(all)+1, len(entries), problem)
			}
			attempt++
		}
	}
	return all, nil
}

// batch sends as many entries as one request holds. It returns the registrations, and the
// problem that ended the batch.
func (c *Client) batch(ctx context.Context, entries []*entry.Entry) ([]Registration, *api.Problem, error) {
	var body []byte
	count := 0
	for count < min(len(entries), api.MaxBatchLines) {
		longer := append(entries[count].AppendEnvelope(body), '\n')
		if len(longer) > api.MaxBatchBytes {
			break
		}
		body = longer
		count++
	}
	r, err := c.do(ctx, call{method: http.MethodPost, path: api.PathEntries, mediaType: api.MediaNDJSON, body: body, limit: maxAnswer, answer: api.MediaNDJSON})
	if problem, ok := errors.AsType[*api.Problem](err); ok && !problem.Temporary() {
		return nil, problem, nil
	}
	if err != nil {
		return nil, nil, err
	}
	got, problem, err := c.readBatch(ctx, r.body, entries[:count])
	if err != nil {
		return nil, nil, err
	}
	if len(got) == 0 && problem == nil {
		return nil, nil, malformed("neither a result nor a problem")
	}
	got, err = c.registered(ctx, entries, got)
	return got, problem, err
}

// readBatch reads the answer to a batch.
func (c *Client) readBatch(ctx context.Context, body []byte, sent []*entry.Entry) (got []Registration, problem *api.Problem, err error) {
	first, rest, _ := bytes.Cut(body, []byte("\n"))
	var batch api.BatchHead
	if err := json.Unmarshal(first, &batch); err != nil {
		return nil, nil, malformed("%v", err)
	}
	opened, err := c.Root().Head([]byte(batch.Head))
	if err != nil {
		return nil, nil, err
	}
	for line := range bytes.Lines(rest) {
		result, problem, err := api.DecodeBatchLine(line)
		switch {
		case err != nil:
			return nil, nil, malformed("%v", err)
		case problem != nil:
			return got, problem, nil
		case len(got) == len(sent):
			return nil, nil, malformed("more results than entries")
		}
		r := Registration{Duplicate: result.Duplicate, Receipt: verify.Receipt{
			Leaf: sent[len(got)].AppendLeaf(nil, result.RegisteredAt), Index: result.Index, Proof: result.Proof, Head: batch.Head,
		}}
		// Another valid signature may have been registered before.
		if r.Duplicate && merkle.CheckInclusion(r.Index, merkle.HashLeaf(r.Leaf), opened, r.Proof) != nil {
			if r.Receipt, err = c.fetchReceipt(ctx, r.Index); err != nil {
				return nil, nil, err
			}
		}
		got = append(got, r)
	}
	return got, nil, nil
}
