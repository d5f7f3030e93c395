package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

const livePath = "/live"

const (
	// livePause is the shortest time between two events of a stream: four a second.
	livePause = 250 * time.Millisecond
	// liveSilence is the longest silence of a stream.
	liveSilence = 5 * time.Second
	// liveWrite bounds the time that a browser takes to read an event.
	liveWrite = time.Minute
	// liveEntries is how many entries an event looks into; liveSubjects is how many
	// subjects it names. An event about more says that anything may have changed.
	liveEntries  = 2048
	liveSubjects = 256
)

// everything is the subject of an event about more than the event can name.
const everything = "*"

// growth is an event: the log has grown, or how it stands has changed.
type growth struct {
	Size uint64      `json:"size"`
	Root merkle.Hash `json:"root"`
	// LostAt is when the ledger was last reached, Unix milliseconds; 0: it is reached.
	LostAt int64 `json:"lost_at"`
	// Alone says that one page stands in the place of all now.
	Alone bool `json:"alone"`
	// Touched counts the new entries by what they are about, as subject spells it.
	Touched map[string]int `json:"touched"`
}

// subject spells what a page or an entry is about, such as "incident/43".
func subject(of entry.SubjectType, value any) string {
	return string(of) + "/" + url.PathEscape(fmt.Sprint(value))
}

// live is GET /live, a stream of events (the HTML standard, section 9.2). It tells how
// the log grows from the size of the query, or of the last event that the browser has
// seen, until the browser leaves or the request's context ends.
func (k *Console) live(w http.ResponseWriter, q *http.Request) {
	secure(w.Header())
	size, err := strconv.ParseUint(q.Header.Get("Last-Event-ID"), 10, 63)
	if err != nil {
		if size, err = strconv.ParseUint(q.URL.Query().Get("size"), 10, 63); err != nil {
			size = k.cfg.Source.Standing().Size
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	// A recorder of a test has no limits of time to lift.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return
	}
	send := func(text string) error {
		if err := control.SetWriteDeadline(time.Now().Add(liveWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return control.Flush()
	}
	if send("retry: 1000\n\n") != nil {
		return // whoever does not take it has gone away
	}
	told := growth{Size: size}
	for {
		event, err := k.news(q.Context(), size)
		if err != nil {
			return
		}
		text := ":\n\n"
		if event.Size != told.Size || event.LostAt != told.LostAt || event.Alone != told.Alone {
			told, size = *event, event.Size
			data, err := json.Marshal(event)
			if err != nil {
				return
			}
			text = fmt.Sprintf("id: %d\ndata: %s\n\n", size, data)
		}
		if send(text) != nil {
			return
		}
		select {
		case <-q.Context().Done():
			return
		case <-time.After(livePause):
		}
	}
}

// news waits until the log has more than size entries, and tells what they are about.
// After a silence the event is about no entry.
func (k *Console) news(ctx context.Context, size uint64) (*growth, error) {
	silence, stop := context.WithTimeout(ctx, liveSilence)
	defer stop()
	if err := k.cfg.Source.Wait(silence, size+1); err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return nil, err
	}
	at := k.cfg.Source.Standing()
	event := &growth{Size: at.Size, Root: at.Root, LostAt: at.LostAt, Alone: at.Found != nil, Touched: map[string]int{}}
	if at.Size <= size { // a silence, or a log that is read from its beginning again
		event.Size = size
		return event, nil
	}
	if at.Size-size > liveEntries {
		event.Touched[everything] = int(at.Size - size)
		return event, nil
	}
	for e, err := range k.cfg.Source.Entries(ctx, size, at.Size) {
		if err != nil {
			return nil, err
		}
		for _, s := range e.Subjects(e.Index) {
			event.Touched[subject(s.Type, s.Value)]++
		}
	}
	if len(event.Touched) > liveSubjects {
		event.Touched = map[string]int{everything: int(at.Size - size)}
	}
	return event, nil
}
