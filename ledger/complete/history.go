package complete

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// TailMax is the number of entries behind the index that a history takes along: a history that
// would need more waits for the next index entry.
const TailMax = 512

// Proofs are the proofs of the log that a history needs beside the index.
type Proofs interface {
	// Entry returns the entry at an index. It is called concurrently.
	Entry(index uint64) (*entry.Registered, error)
	// Inclusions returns the joint proof of entries in the tree of the first size ones.
	Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error)
}

// Question asks for the entries of a subject.
type Question struct {
	Subject entry.Subject
	Labels  []entry.Label // of the lists that are shown; none: all that the subject may have
	From    uint64        // first index that counts
	Size    uint64        // entries of the log that count; 0: those under the head
	Limit   int           // at most so many entries, the oldest; 0: [verify.MaxItems] and the tail bound it
	// Beside are subjects that the history shows, too, with the same labels, and each from
	// its first entry on. They are none of the Limit.
	Beside []entry.Subject
}

// History answers a question under a tree head (IDX-4). Chain belongs to that head or a later one.
// The history ends at the limit; the caller asks again from there. The error is [ErrNotReady] if
// the newest index entry does not stand under the head, or covers too little; [ErrStopped]; or a
// [*entry.Refusal] of the question.
func (x *Index) History(ctx context.Context, q Question, head verify.SignedHead, chain *verify.Chain, log Proofs) (*verify.History, error) {
	if err := q.check(head.Size); err != nil {
		return nil, err
	}
	part := Part{Labels: map[entry.SubjectType][]entry.Label{q.Subject.Type: q.Labels}, From: q.From, To: q.Size, Limit: q.Limit, Beside: map[entry.Subject]bool{}}
	for _, s := range q.Beside {
		part.Beside[s], part.Labels[s.Type] = true, q.Labels
	}
	p, err := x.Prove(append([]entry.Subject{q.Subject}, q.Beside...), part)
	if err != nil {
		return nil, err
	}
	index := p.Entry.Body.(*entry.LogIndex)
	if p.Entry.Index >= head.Size {
		return nil, fmt.Errorf("%w: its entry is %d, and the tree head has size %d", ErrNotReady, p.Entry.Index, head.Size)
	}
	h := &verify.History{Head: head.Note, Index: p.Entry.Index, Indexed: p.Indexed, Size: p.To}
	needed := slices.Concat(p.given, []uint64{p.Entry.Index})
	if h.Size > index.Size+TailMax {
		return nil, fmt.Errorf("%w: it covers %d entries of %d", ErrNotReady, index.Size, h.Size)
	}
	for i := index.Size; i < h.Size; i++ { // whatever q.From is: a reader understands the file without the question
		needed = append(needed, i)
	}
	f := filler{size: head.Size, chain: chain, log: log}
	return h, f.fill(ctx, h, needed)
}

// check completes a question about a log of that size.
func (q *Question) check(size uint64) error {
	refuse := func(field, format string, args ...any) *entry.Refusal {
		return entry.Refuse(entry.Malformed, field, format, args...)
	}
	if !q.Subject.Known() {
		return refuse("subject", "%q is no %s", q.Subject.Value, q.Subject.Type)
	}
	all := entry.Labels(q.Subject.Type)
	for _, label := range q.Labels {
		if !slices.Contains(all, label) {
			return refuse("labels", "%.80q is no label under a subject of type %s", label, q.Subject.Type).
				WithRemedy("use labels of IDX-1, such as " + string(all[0]))
		}
	}
	if len(q.Labels) == 0 {
		q.Labels = all
	}
	if q.Size == 0 {
		q.Size = size
	}
	switch {
	case q.Size > size:
		return refuse("size", "%d, and the tree head has size %d", q.Size, size)
	case q.From >= q.Size:
		return refuse("since", "%d, and the history ends at size %d", q.From, q.Size)
	}
	return nil
}

// filler has the sources of a history's entries.
type filler struct {
	size  uint64 // of the head
	chain *verify.Chain
	log   Proofs
}

// fill puts the entries into a history, and those by which their signers count.
func (f *filler) fill(ctx context.Context, h *verify.History, needed []uint64) error {
	slices.Sort(needed)
	needed = slices.Compact(needed)
	if len(needed) > verify.MaxItems {
		return entry.Refuse(entry.TooLarge, "limit", "the history has %d entries, the limit is %d", len(needed), verify.MaxItems).
			WithRemedy("ask for a part: limit and since")
	}
	entries := map[uint64]*entry.Registered{}
	signers := map[entry.Principal]bool{}
	read, failed := make([]*entry.Registered, len(needed)), make([]error, len(needed))
	verify.InParallel(len(needed), func(i int) { // to read the entries takes most of the time
		if failed[i] = ctx.Err(); failed[i] == nil {
			read[i], failed[i] = f.log.Entry(needed[i])
		}
	})
	for i, e := range read {
		if failed[i] != nil {
			return failed[i]
		}
		entries[e.Index], signers[e.Header.Iss] = e, true
		if link, ok := e.Body.(*entry.Agent); ok { // its place in the chain depends on those before
			signers[link.Principal] = true
		}
	}
	for _, l := range f.chain.LinksFor(slices.Collect(maps.Keys(signers))...) {
		if l.Index < f.size && entries[l.Index] == nil {
			entries[l.Index], needed = &l, append(needed, l.Index)
		}
	}
	slices.Sort(needed)
	h.Entries = make([]verify.Leaf, len(needed))
	verify.InParallel(len(needed), func(i int) {
		h.Entries[i] = verify.Leaf{Index: needed[i], Bytes: jsontext.Value(entries[needed[i]].AppendLeaf(nil))}
	})
	var err error
	h.Inclusion, err = f.log.Inclusions(needed, f.size)
	return err
}

// Content is what a history says, without its proofs and its tree head. An older history with
// the same content proves the same.
type Content struct {
	Size     uint64          `json:"size"`
	Subjects []entry.Subject `json:"subjects"`
	Entries  []uint64        `json:"entries"` // indexes of the entries under the subjects
}

// ContentOf returns the content of a history.
func ContentOf(h *verify.History) (c Content) {
	c.Size = h.Size
	for _, s := range h.Subjects {
		c.Subjects = append(c.Subjects, s.Subject)
	}
	for _, leaf := range h.Entries {
		e, _, err := entry.DecodeLeaf(leaf.Bytes)
		if err == nil && leaf.Index < h.Size && slices.ContainsFunc(e.Subjects(leaf.Index), func(l entry.Listing) bool { return slices.Contains(c.Subjects, l.Subject) }) {
			c.Entries = append(c.Entries, leaf.Index)
		}
	}
	return c
}
