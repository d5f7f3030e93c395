package console

import (
	"net/http"
	"slices"
	"strconv"

	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// entryRow is a line of a list of entries.
type entryRow struct {
	Index  uint64
	At     int64
	Kind   entry.Kind
	Issuer entry.Principal
	Says   string
}

func newEntryRow(e *entry.Registered) entryRow {
	return entryRow{e.Index, e.RegisteredAt, e.Kind, e.Header.Iss, words.Summary(e.Body)}
}

// logPage is a page of the log, the newest entry first.
type logPage struct {
	Rows  []entryRow
	Older string // link; empty: there are none
}

// log is GET /log. With index in the query it leads to that entry.
func (k *Console) log(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	at := k.cfg.Source.Standing()
	to := at.Size
	if older != 0 {
		to = min(to, older)
	}
	from := max(to, rows) - rows
	body := &logPage{}
	for e, err := range k.cfg.Source.Entries(q.Context(), from, to) {
		if err != nil {
			return nil, err
		}
		body.Rows = append(body.Rows, newEntryRow(e))
	}
	slices.Reverse(body.Rows)
	if from > 0 {
		body.Older = k.link("/log") + "?before=" + decimal(from)
	}
	return &page{name: "log", Title: "Log", Command: "arl entry list --newest", Section: "Log", Body: body, At: at, About: []string{everything}}, nil
}

// entryPage is an entry, what was signed, and the proof that it stands in the log.
type entryPage struct {
	entryRow
	Workflow entry.WorkflowID
	KeyID    string
	LeafHash merkle.Hash
	Payload  string // indented
	Signed   string // the bytes that the signature covers
	Bytes    int    // how many those are
	Proof    []merkle.Hash
	Size     uint64
	Root     merkle.Hash
	// Verifiable says that the browser can verify the entry; Derived that this machine has
	// verified it; Provable that the proof can be downloaded.
	Verifiable, Derived, Provable bool
	Consistency                   *consistency // nil: no older head was accepted here
	Follows                       []entryRow   // entries that follow from it
	More                          bool         // whether further entries may follow
}

// entry is GET /log/{index}. The proof is checked here, under the root that the page
// shows.
func (k *Console) entry(q *http.Request) (*page, error) {
	index, err := number(q, "index")
	if err != nil {
		return nil, err
	}
	at := k.cfg.Source.Standing()
	if index >= at.Size {
		return nil, entry.Refuse(entry.NotFound, "index", "the log has %d entries: there is no entry %d", at.Size, index).
			WithRemedy("the page of the log lists the newest entries")
	}
	e, proof, err := k.cfg.Source.Entry(q.Context(), index, at.Size)
	if err != nil {
		return nil, err
	}
	if err := merkle.CheckInclusion(index, e.LeafHash(), at.Head, proof); err != nil {
		return nil, err
	}
	body := &entryPage{entryRow: newEntryRow(e), Workflow: e.Header.Wid, KeyID: e.KeyID, LeafHash: e.LeafHash(), Proof: proof, Size: at.Size, Root: at.Root,
		Verifiable: k.verifiable(at), Derived: k.cfg.Derived, Provable: at.Note != "", Payload: indented(e.Payload()), Signed: string(e.PAE()), Bytes: len(e.PAE())}
	var behind []uint64
	k.cfg.Source.Read(func(state *coord.State, now Standing) {
		if now.Head == at.Head {
			body.Consistency = k.consistent(state, at)
		}
		behind = view.Following(state, e, now.Now)
	})
	if body.Follows, body.More, err = k.followers(q.Context(), e, behind); err != nil {
		return nil, err
	}
	return &page{name: "entry", Title: "Entry " + decimal(index), Command: "arl entry get " + decimal(index), Section: "Log", Body: body, At: at}, nil
}
