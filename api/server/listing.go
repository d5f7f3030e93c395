package server

import (
	"slices"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// listing is a query for entries as the index answers it.
type listing struct {
	*api.ListQuery
	tags  []entry.Tag // all must match; the rarest first
	kinds []entry.Tag // any must match; empty unless several kinds are asked for
}

// newListing returns the listing of a query. A single kind is a tag like the others.
func newListing(q *api.ListQuery) *listing {
	l := &listing{ListQuery: q, tags: q.Tags()}
	for _, kind := range q.Kinds {
		l.kinds = append(l.kinds, entry.Tag{Index: entry.ByKind, Value: string(kind)})
	}
	if len(l.kinds) == 1 {
		l.tags, l.kinds = append(l.tags, l.kinds...), nil
	}
	return l
}

// find returns the question to the index of a tag.
func (l *listing) find(tag entry.Tag, from, before uint64, limit int) ledger.Query {
	return ledger.Query{Index: tag.Index, Value: tag.Value, From: from, To: before, Limit: limit, Newest: l.Newest}
}

// matches reports whether the entry at index has every tag, and one of the kinds.
func (l *listing) matches(e *entry.Entry, index uint64) bool {
	if len(l.tags)+len(l.kinds) < 2 {
		return true // the index has answered it
	}
	tags := e.Tags(index)
	has := func(tag entry.Tag) bool { return slices.Contains(tags, tag) }
	lacks := func(tag entry.Tag) bool { return !has(tag) }
	return !slices.ContainsFunc(l.tags, lacks) && (len(l.kinds) == 0 || slices.ContainsFunc(l.kinds, has))
}
