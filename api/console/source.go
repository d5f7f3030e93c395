package console

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Standing is the state of the log that a page shows.
type Standing struct {
	merkle.Head        // signed
	Note        string // of the head, with its signatures (c2sp.org/signed-note); empty: not told
	At          int64  // when the newest entry under it was registered, Unix milliseconds; 0: not told
	Now         int64  // the ledger's clock, Unix milliseconds
	// LostAt is when the ledger was last reached, Unix milliseconds; 0: it is reached.
	LostAt int64
	// Reading says how far the log is read; nil: Read shows a state.
	Reading *Reading
	// Found is what contradicts the ledger; nil: nothing does. No page shows anything else
	// then.
	Found *Found
}

// Reading is how far a log is read, in entries.
type Reading struct{ Done, Size uint64 }

// Found is what a machine found against a ledger.
type Found struct {
	Detail   string
	Evidence string // file that convicts the ledger; empty: nothing does, or it could not be written
}

// Source has a log, and the state that follows from it. Its methods may be called at any
// time from anywhere.
type Source interface {
	Log
	// Standing returns which state of the log Read shows now, or an older one.
	Standing() Standing
	// Read calls show with the state of the log at one signed tree head. show must
	// not keep or change the state. Where pages sign, calls of show must not overlap:
	// to find out who may sign counts as a change of the state.
	Read(show func(state *coord.State, at Standing))
}

// Log has the entries of a source.
type Log interface {
	// Entry returns the entry at an index with its inclusion proof under the tree head
	// of a size, which was the size of an earlier Standing. The error is a
	// *[entry.Refusal] where there is no such entry.
	Entry(ctx context.Context, index, size uint64) (*entry.Registered, []merkle.Hash, error)
	// Entries yields the entries from an index to below another, which is at most the
	// size of an earlier Standing.
	Entries(ctx context.Context, from, to uint64) iter.Seq2[*entry.Registered, error]
	// Wait returns nil as soon as Standing has a size or a larger one. The error says that
	// ctx ended before.
	Wait(ctx context.Context, size uint64) error
}

// number reads an index from the path of a request.
func number(q *http.Request, name string) (uint64, error) {
	text := q.PathValue(name)
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, entry.Refuse(entry.Malformed, name, "%.140q is not an index of the log", text).WithRemedy("an index is a number from 0 on")
	}
	return n, nil
}

// before reads from where on an older page shows; 0: from the newest.
func before(q *http.Request) (uint64, error) {
	text := q.URL.Query().Get("before")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, entry.Refuse(entry.Malformed, "before", "%.140q is not an index of the log", text).WithRemedy("an index is a number from 0 on")
	}
	return n, nil
}

// legibleLines is [words.Legible] for a text whose lines are kept apart.
func legibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = words.Legible(lines[i])
	}
	return strings.Join(lines, "\n")
}
