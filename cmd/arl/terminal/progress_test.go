package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgressInLines tells the progress of a step of 25 seconds to a stream that is no terminal: a
// line every 10 seconds, and none of a short step.
func TestProgressInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		c := &Terminal{Err: &said}
		tell, end := c.Progress("check")
		for done := range uint64(26) {
			tell(done, 25)
			time.Sleep(time.Second)
		}
		end()
		if want := "arl: check: 10 of 25\narl: check: 20 of 25\n"; said.String() != want {
			t.Errorf("%q, want %q", said.String(), want)
		}
		said.Reset()
		tell, end = c.Progress("short")
		tell(1, 1)
		end()
		if strings.TrimSpace(said.String()) != "" {
			t.Errorf("%q", said.String())
		}
	})
}

// TestProgressHasANote shows a note behind the counts as it is when they are told.
func TestProgressHasANote(t *testing.T) {
	var said bytes.Buffer
	c := &Terminal{Err: &said, LineEvery: 1}
	registered := 0
	tell, end := c.NotedProgress("import", func() string { return fmt.Sprintf(" bytes read, %d registered", registered) })
	for registered = range 2 {
		tell(100, 100)
	}
	end()
	if want := "arl: import: 100 of 100 bytes read, 0 registered\narl: import: 100 of 100 bytes read, 1 registered\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}
