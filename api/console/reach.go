package console

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"recoveryledger/ledger/entry"
)

// reachTime is how long a page waits for an entry that the log does not have yet. It is
// longer than a console takes to look for new entries.
const reachTime = 3 * time.Second

// reach waits, not for long, until a derived log has an entry. A link to an entry may be
// younger than what the console has read.
func (k *Console) reach(q *http.Request, index uint64) {
	if !k.cfg.Derived {
		return // the ledger itself has read every entry
	}
	ctx, stop := context.WithTimeout(q.Context(), reachTime)
	defer stop()
	_ = k.cfg.Source.Wait(ctx, index+1) // the page says what there is
}

// signedNow returns the index of the entry that was just signed here, which a query names.
// It waits until the pages show the entry, as long as the wait is short.
func (k *Console) signedNow(q *http.Request) (index uint64, err error) {
	text := q.URL.Query().Get("signed")
	if text == "" {
		return 0, nil
	}
	if index, err = strconv.ParseUint(text, 10, 62); err != nil {
		return 0, entry.Refuse(entry.Malformed, "signed", "%.40q is not an index of the log", text)
	}
	if k.reach(q, index); k.cfg.Source.Standing().Size <= index {
		return 0, nil // the page shows what is known
	}
	return index, nil
}
