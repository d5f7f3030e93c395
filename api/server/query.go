package server

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// params reads the parameters of a query, each at most once and in one
// spelling. It keeps the first refusal; what is read after it is meaningless.
type params struct {
	values  url.Values
	refusal *entry.Refusal
}

// parseParams refuses a query with other parameters than the known ones.
func parseParams(rawQuery string, known ...string) *params {
	p := &params{}
	var err error
	if p.values, err = url.ParseQuery(rawQuery); err != nil {
		p.refuse("", "the query is not well-formed: %v", err)
		return p
	}
	for name, values := range p.values {
		switch {
		case !slices.Contains(known, name):
			p.refuse(name, "there is no parameter of this name")
			p.refusal.Remedy = suggest(name, known)
			return p
		case len(values) > 1:
			p.refuse(name, "given %d times", len(values))
			return p
		}
	}
	return p
}

// noParams refuses any parameter.
func noParams(rawQuery string) error {
	if rawQuery == "" {
		return nil
	}
	return parseParams(rawQuery).err()
}

func (p *params) err() error {
	if p.refusal == nil {
		return nil
	}
	return p.refusal
}

func (p *params) refuse(name, format string, args ...any) {
	if p.refusal == nil {
		if len(name) > entry.MaxName {
			name = ""
		}
		p.refusal = entry.Refuse(entry.Malformed, name, format, args...)
	}
}

// number reads a decimal number without leading zeros.
func (p *params) number(name string, fallback, limit uint64) uint64 {
	if !p.values.Has(name) {
		return fallback
	}
	text := p.values.Get(name)
	value, err := parseNumber(text, limit)
	if err != nil {
		p.refuse(name, "%.40q is not a number from 0 to %d", text, limit)
	}
	return value
}

// limit reads how many elements a page may have.
func (p *params) limit() int { return p.page(pageDefault, api.MaxPage) }

func (p *params) page(fallback, limit uint64) int {
	if !p.values.Has("limit") {
		return int(fallback)
	}
	text := p.values.Get("limit")
	value, err := parseNumber(text, limit)
	if err != nil || value == 0 {
		p.refuse("limit", "%.40q is not a number from 1 to %d", text, limit)
	}
	return int(value)
}

// numbers reads a list of numbers with commas between them.
func (p *params) numbers(name string) (list []uint64) {
	if !p.values.Has(name) {
		return nil
	}
	for text := range strings.SplitSeq(p.values.Get(name), ",") {
		number, err := parseNumber(text, entry.MaxInteger)
		if err != nil || len(list) == entry.MaxList {
			p.refuse(name, "not a list of at most %d numbers, such as 17,23", entry.MaxList)
			return nil
		}
		list = append(list, number)
	}
	return list
}

func parseNumber(text string, limit uint64) (uint64, error) {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil || value > limit || strconv.FormatUint(value, 10) != text {
		return 0, strconv.ErrSyntax
	}
	return value, nil
}

// name reads an id or a reference, in the characters that they are made of.
func (p *params) name(name string) string {
	text := p.values.Get(name)
	if p.values.Has(name) && !validName(text) {
		p.refuse(name, "%.140q is not 1 to %d characters of A–Z a–z 0–9 . _ : / @ - #", text, 2*entry.MaxName+1)
	}
	return text
}

func validName(text string) bool {
	return text != "" && len(text) <= 2*entry.MaxName+1 &&
		strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-#") == ""
}

// flag reads true or false.
func (p *params) flag(name string) bool {
	switch text := p.values.Get(name); {
	case !p.values.Has(name) || text == "false":
		return false
	case text == "true":
		return true
	default:
		p.refuse(name, "%.40q is neither true nor false", text)
		return false
	}
}

// suggest names the known parameter that looks most like the given one, or all.
func suggest(name string, known []string) string {
	if len(known) == 0 {
		return "this path takes no parameters"
	}
	if near := entry.Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "use " + strings.Join(known, ", ")
}

// listQuery is the query of GET /v1/entries.
type listQuery struct {
	tags         []entry.Tag // all must match; the rarest first
	kinds        []entry.Tag // any must match; empty unless several kinds are asked for
	from, before uint64      // bounds of the index: the first that counts, the first behind
	since, until uint64      // bounds of registered_at, Unix milliseconds; 0: none
	limit        int
	newest       bool
}

// filter is a parameter that an index answers.
type filter struct {
	name  string
	index entry.Index
}

// filters are in the order in which they narrow a list down, as a rule.
func filters() []filter {
	return []filter{{"incident", entry.ByIncident}, {"task", entry.ByTask}, {"workflow", entry.ByWorkflow},
		{"agent", entry.ByAgent}, {"kind", entry.ByKind}}
}

// filter reads the filters that an index answers into a query. A single kind is
// a tag like the others.
func (p *params) filter(q *listQuery) {
	for _, f := range filters() {
		if f.index == entry.ByKind {
			continue
		}
		if value := p.name(f.name); value != "" {
			q.tags = append(q.tags, entry.Tag{Index: f.index, Value: value})
		}
	}
	switch kinds := p.kinds(); len(kinds) {
	case 0:
	case 1:
		q.tags = append(q.tags, kinds[0])
	default:
		q.kinds = kinds
	}
	p.number("incident", 0, entry.MaxInteger)
}

// kinds reads the parameter kind: kinds of entries with commas between them,
// each once.
func (p *params) kinds() (tags []entry.Tag) {
	if !p.values.Has("kind") {
		return nil
	}
	for text := range strings.SplitSeq(p.values.Get("kind"), ",") {
		tag := entry.Tag{Index: entry.ByKind, Value: text}
		switch {
		case !slices.Contains(entry.Kinds(), entry.Kind(text)):
			p.refuse("kind", "%.60q is not a kind of entry", text)
			return nil
		case slices.Contains(tags, tag):
			p.refuse("kind", "%s is given twice", text)
			return nil
		}
		tags = append(tags, tag)
	}
	return tags
}

func parseListQuery(rawQuery string) (listQuery, error) {
	p := parseParams(rawQuery, "kind", "agent", "workflow", "incident", "task",
		"since", "until", "from", "before", "limit", "newest")
	q := listQuery{
		from:   p.number("from", 0, math.MaxUint64),
		before: p.number("before", math.MaxUint64, math.MaxUint64),
		since:  p.number("since", 0, entry.MaxInteger),
		until:  p.number("until", 0, entry.MaxInteger),
		limit:  p.limit(),
		newest: p.flag("newest"),
	}
	p.filter(&q)
	return q, p.err()
}

// path returns the path that asks for the list.
func (q *listQuery) path() string {
	v := url.Values{}
	set := func(name string, value, fallback uint64) {
		if value != fallback {
			v.Set(name, strconv.FormatUint(value, 10))
		}
	}
	for _, f := range filters() {
		for _, tag := range q.tags {
			if tag.Index == f.index {
				v.Set(f.name, tag.Value)
			}
		}
	}
	if len(q.kinds) > 0 {
		var kinds []string
		for _, kind := range q.kinds {
			kinds = append(kinds, kind.Value)
		}
		v.Set("kind", strings.Join(kinds, ","))
	}
	set("from", q.from, 0)
	set("before", q.before, math.MaxUint64)
	set("since", q.since, 0)
	set("until", q.until, 0)
	set("limit", uint64(q.limit), pageDefault)
	if q.newest {
		v.Set("newest", "true")
	}
	if len(v) == 0 {
		return entriesPath
	}
	return entriesPath + "?" + v.Encode()
}

// find returns the question to the index of a tag.
func (q *listQuery) find(tag entry.Tag, from, before uint64, limit int) ledger.Query {
	return ledger.Query{Index: tag.Index, Value: tag.Value, From: from, To: before, Limit: limit, Newest: q.newest}
}

// matches reports whether the entry at index has every tag, and one of the kinds.
func (q *listQuery) matches(e *entry.Entry, index uint64) bool {
	if len(q.tags)+len(q.kinds) < 2 {
		return true // the index has answered it
	}
	tags := e.Tags(index)
	has := func(tag entry.Tag) bool { return slices.Contains(tags, tag) }
	lacks := func(tag entry.Tag) bool { return !has(tag) }
	return !slices.ContainsFunc(q.tags, lacks) && (len(q.kinds) == 0 || slices.ContainsFunc(q.kinds, has))
}
