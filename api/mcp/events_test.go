package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventsIn returns the events of a text, each as a line.
func eventsIn(tb testing.TB, text string) (said []string) {
	tb.Helper()
	err := readEvents(strings.NewReader(text), func(e event) bool {
		said = append(said, fmt.Sprintf("%s %s %q %v", e.name, e.id, e.data, e.retry))
		return true
	})
	if err != nil {
		tb.Fatal(err)
	}
	return said
}

// TestReadEvents reads the forms of events that the standard allows.
func TestReadEvents(t *testing.T) {
	got := strings.Join(eventsIn(t, "\ufeffevent: message\r\nid: 7\r\ndata: {\r\ndata:}\r\n\r\n: a comment\nretry: 250\ndata\nunknown: x\n\ndata: cut"), "\n")
	if want := "message 7 \"{\\n}\" 0s\n  \"\" " + (250 * time.Millisecond).String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	one := "data: " + strings.Repeat("x", sdk.DefaultMaxLineLength-len("data: ")-1) + "\n\n"
	eventsIn(t, one)
	for _, large := range []string{"data: " + strings.Repeat("x", sdk.DefaultMaxLineLength) + "\n\n", strings.TrimSuffix(one, "\n") + "data: xxxxxxx\n\n"} {
		err := readEvents(strings.NewReader(large), func(event) bool { return true })
		if _, is := errors.AsType[*EventError](err); !is {
			t.Errorf("%d bytes: %v", len(large), err)
		}
	}
}

// FuzzReadEvents: whatever a server sends, the data of all events is a part of what was sent.
func FuzzReadEvents(f *testing.F) {
	f.Add("event: message\nid: 1\ndata: {}\n\n")
	f.Add("data: a\rdata\n\n:\nretry: 99999999999999\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		size := 0
		_ = readEvents(strings.NewReader(text), func(e event) bool {
			for line := range strings.Lines(string(e.data)) {
				if !strings.Contains(text, strings.TrimSuffix(line, "\n")) {
					t.Errorf("%q is not in %q", line, text)
				}
			}
			size += len(e.data)
			return e.retry >= 0
		})
		if size > len(text) {
			t.Errorf("%d bytes of data in %d", size, len(text))
		}
	})
}
