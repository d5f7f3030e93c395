package console

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

const searchPath = "/search"

// searchPage is what was looked for, and that there is none.
type searchPage struct {
	Text string
	Size uint64
}

// search is GET /search: it leads to what a text names.
func (k *Console) search(w http.ResponseWriter, q *http.Request) {
	text := strings.TrimSpace(q.URL.Query().Get("q"))
	link := ""
	var seen Standing
	if k.alone(w) == nil {
		k.cfg.Source.Read(func(state *coord.State, at Standing) {
			seen = at
			link = k.find(state, at, text)
		})
	}
	if link != "" {
		secure(w.Header())
		http.Redirect(w, q, link, http.StatusSeeOther)
		return
	}
	k.answer(w, q, func(*Console, *http.Request) (*page, error) {
		return &page{name: "search", Title: "Search", Command: "arl entry list", Section: "Log", Body: &searchPage{text, seen.Size}, At: seen}, nil
	})
}

// find returns the link to what a text names: an entry by its index or leaf hash, an
// execution, a task, a key, a principal or a workflow; empty: the log has nothing of that
// name.
func (k *Console) find(state *coord.State, at Standing, text string) string {
	if index, err := strconv.ParseUint(text, 10, 63); err == nil && index < at.Size {
		return k.link("/log", index)
	}
	if x, ok := state.Execution(entry.Ref(text), at.Now); ok {
		return k.link("/log", x.Index)
	}
	if _, ok := state.Task(entry.Ref(text)); ok {
		return k.link("/tasks", text)
	}
	if owner, _ := state.Chain().Owner(text); owner != "" {
		return k.link("/agents", owner)
	}
	if _, ok := state.FindPrincipal(entry.Principal(text)); ok {
		return k.link("/agents", text)
	}
	if _, ok := state.Workflow(entry.WorkflowID(text), 0, 1, at.Now); ok {
		return k.link("/workflows", text)
	}
	if hash, ok := hashOf(text); ok {
		for index := range at.Size {
			if leaf, err := state.Node(0, index); err == nil && leaf == hash {
				return k.link("/log", index)
			}
		}
	}
	return ""
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
