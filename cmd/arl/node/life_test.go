package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRebuildTells builds a state again for 25 seconds: a line every 10 seconds, and none of an
// opening that is short.
func TestRebuildTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		life := &Life{Logger: slog.New(slog.NewTextHandler(&said, nil))}
		o := &Options{Progress: life.Progress}
		for _, seconds := range []uint64{0, 25} {
			tell, end := o.rebuilding(t.Context(), time.Now())
			for done := range seconds + 1 {
				_ = tell(done, seconds) // no end is asked for
				time.Sleep(time.Second)
			}
			end()
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "done=10 total=25") || !strings.HasSuffix(lines[1], "done=20 total=25") {
			t.Errorf("%q", lines)
		}
	})
}

// TestRebuildSaysAtOnce shows nothing in the first second, and then every step: what shows it says
// how often.
func TestRebuildSaysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []uint64
		o := &Options{Progress: func(string) (func(done, total uint64), func()) {
			return func(done, _ uint64) { shown = append(shown, done) }, func() { shown = append(shown, 0) }
		}}
		tell, end := o.rebuilding(t.Context(), time.Now())
		_ = tell(1, 3) // no end is asked for
		time.Sleep(time.Second)
		_ = tell(2, 3)
		end()
		if len(shown) != 2 || shown[0] != 2 || shown[1] != 0 {
			t.Errorf("shown %v", shown)
		}
		ctx, cancel := context.WithCancel(t.Context())
		tell, end = (&Options{}).rebuilding(ctx, time.Now())
		before := tell(1, 3)
		cancel()
		if after := tell(2, 3); before != nil || !errors.Is(after, context.Canceled) {
			t.Errorf("%v before the end is asked for, %v after", before, after)
		}
		end()
	})
}
