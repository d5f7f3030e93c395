package console

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// long is a log of which one entry has an id.
type long struct {
	unread
	at   uint64
	read int // entries in all
}

func (l *long) Entries(_ context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		other := &entry.Registered{Entry: &entry.Entry{Header: &entry.Header{Iss: "a"}}}
		for i := from; i < to; i++ {
			l.read++
			e := other
			if i == l.at {
				e = &entry.Registered{Entry: &entry.Entry{Header: &entry.Header{Iss: "a", JTI: wantedID}}, Index: i}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

const wantedID = "00000000-0000-4000-8000-000000000001"

// TestFindID looks through a long log for an id: the newest entries first, so many a search, and as
// often as the page leads further.
func TestFindID(t *testing.T) {
	const size = 3*idScan + 17
	for _, at := range []uint64{0, 1, 17, idScan, 2*idScan + 16, size - idBlock, size - 1, size} {
		source := &long{at: at}
		k, err := New(&Config{Source: source, Origin: "ledger.example/test"})
		if err != nil {
			t.Fatal(err)
		}
		older, searches := uint64(0), 0
		for ; ; searches++ {
			body := &searchPage{Text: "a#" + wantedID, Size: size}
			if err := k.findID(t.Context(), body, older); err != nil {
				t.Fatal(err)
			}
			if body.To-body.From > idScan {
				t.Fatalf("entry %d: one search looks through %d to %d", at, body.From, body.To)
			}
			if found := len(body.Hits) == 1 && strings.HasSuffix(body.Hits[0].Link, "/log/"+decimal(at)); found != (body.From <= at && at < body.To) {
				t.Fatalf("entry %d: from %d to %d: %+v", at, body.From, body.To, body.Hits)
			}
			if len(body.Hits) > 0 || body.Older == "" {
				break
			}
			link, err := url.Parse(body.Older)
			if err != nil || link.Query().Get("q") != body.Text || link.Query().Get("before") != decimal(body.From) {
				t.Fatalf("older: %s", body.Older)
			}
			older = body.From
		}
		if at == size && source.read != size {
			t.Errorf("%d entries of %d were read", source.read, size)
		}
	}
}
