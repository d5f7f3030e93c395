package console

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

const searchPath = "/search"

// searchPage is what a text names, and what was looked through.
type searchPage struct {
	Text string
	Size uint64
	Hits []hit
	// From and To are the entries that were looked through for an entry id, From to below To; To 0:
	// the text is no entry id. Older is the link that looks through older ones.
	From, To uint64
	Older    string
}

// hit is what a text names.
type hit struct {
	What, Name string
	Link       string
}

// search is GET /search: it leads to what a text names. A text that names several things has a page
// that lists them.
func (k *Console) search(w http.ResponseWriter, q *http.Request) {
	body := &searchPage{Text: strings.TrimSpace(q.URL.Query().Get("q"))}
	p := &page{name: "search", Title: "Search", Command: "arl entry list", Section: "Log", Body: body}
	older, err := before(q)
	if err == nil && k.alone(w) == nil {
		k.cfg.Source.Read(func(state *coord.State, at Standing) {
			p.At, body.Size = at, at.Size
			body.Hits = k.find(state, at, body.Text)
		})
		if len(body.Hits) == 0 {
			err = k.findID(q.Context(), body, older)
		}
	}
	if err == nil && len(body.Hits) == 1 {
		secure(w.Header())
		http.Redirect(w, q, body.Hits[0].Link, http.StatusSeeOther)
		return
	}
	k.answer(w, q, func(*Console, *http.Request) (*page, error) { return p, err })
}

// find returns what a text names: an incident or an entry by its number, an execution, a task, a
// key, a principal, a workflow, a rollout, an entry by its leaf hash, a policy by the digest of its
// rules.
func (k *Console) find(state *coord.State, at Standing, text string) (hits []hit) {
	add := func(what, name, link string) { hits = append(hits, hit{what, name, link}) }
	ref := entry.Ref(text)
	k.findNumber(state, at, text, add)
	if x, ok := state.Execution(ref, at.Now); ok {
		add("execution", text, k.link("/log", x.Index))
	}
	if _, ok := state.Task(ref); ok {
		add("task", text, k.link("/tasks", text))
	}
	if owner, _ := state.Chain().Owner(text); owner != "" {
		add("key of", string(owner), k.link("/agents", owner))
	}
	if _, ok := state.FindPrincipal(entry.Principal(text)); ok {
		add("principal", text, k.link("/agents", text))
	}
	if _, ok := state.Workflow(entry.WorkflowID(text), 0, 1, at.Now); ok {
		add("workflow", text, k.link("/workflows", text))
	}
	if index, ok := state.Rollouts().Begun(text); ok {
		add("rollout", text, k.link("/log", index))
	}
	if index, ok := state.PolicyWith(entry.Digest(text)); ok {
		add("policy", "entry "+decimal(index), k.link("/log", index))
	}
	if hash, ok := hashOf(text); ok {
		for index := range at.Size {
			if leaf, err := state.Node(0, index); err == nil && leaf == hash {
				add("entry", decimal(index), k.link("/log", index))
				break
			}
		}
	}
	return hits
}

// findNumber finds an incident and an entry by a number, with the word before it or without.
func (k *Console) findNumber(state *coord.State, at Standing, text string, add func(what, name, link string)) {
	what, number, worded := strings.Cut(strings.ReplaceAll(text, "/", " "), " ")
	if !worded {
		what, number = "", text
	}
	index, err := strconv.ParseUint(strings.TrimSpace(number), 10, 63)
	if err != nil || index >= at.Size {
		return
	}
	if what == "" || strings.EqualFold(what, "incident") {
		if _, ok := state.Incident(index, at.Now); ok {
			add("incident", decimal(index), k.link("/incidents", index))
		}
	}
	if what == "" || strings.EqualFold(what, "entry") {
		add("entry", decimal(index), k.link("/log", index))
	}
}

const (
	// idScan is how many entries one search looks through for the id of an entry: nothing indexes
	// ids.
	idScan = 1 << 16
	// idBlock is how many entries are read at once, from the newest on.
	idBlock = 1 << 10
)

// findID finds an entry by its id, alone or behind the issuer and a #: the newest entries below
// older, which is 0 for the end of the log.
func (k *Console) findID(ctx context.Context, body *searchPage, older uint64) error {
	issuer, id, named := strings.Cut(body.Text, "#")
	if !named {
		issuer, id = "", body.Text
	}
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return nil // it is no id
	}
	body.To = body.Size
	if older != 0 {
		body.To = min(older, body.Size)
	}
	floor := max(body.To, idScan) - idScan
	for body.From = body.To; body.From > floor && len(body.Hits) == 0; {
		end := body.From
		body.From = max(floor+idBlock, end) - idBlock
		for e, err := range k.cfg.Source.Entries(ctx, body.From, end) {
			if err != nil {
				return err
			}
			if e.Header.JTI == id && (!named || string(e.Header.Iss) == issuer) {
				body.Hits = append(body.Hits, hit{"entry", fmt.Sprintf("%d of %s", e.Index, e.Header.Iss), k.link("/log", e.Index)})
			}
		}
	}
	if body.From > 0 {
		body.Older = k.link(searchPath) + "?q=" + url.QueryEscape(body.Text) + "&before=" + decimal(body.From)
	}
	return nil
}

// hashOf reads a leaf hash in base64, as the pages and the API write it, or in
// hexadecimal.
func hashOf(text string) (hash merkle.Hash, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != len(hash) {
		raw, err = hex.DecodeString(text)
	}
	if err != nil || len(raw) != len(hash) {
		return hash, false
	}
	copy(hash[:], raw)
	return hash, true
}
