package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTelling: how a claim ended is told for as long as it is held, however long
// the coordinator is away, and for 30 seconds more.
func TestTelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, lost := context.WithCancel(t.Context())
		told, cancel := reportContext(held)
		defer cancel()
		for _, step := range []struct {
			after time.Duration
			does  func()
			over  bool
		}{{time.Hour, lost, false}, {endTime - 1, nil, false}, {1, nil, true}} {
			time.Sleep(step.after)
			synctest.Wait()
			if over := told.Err() != nil; over != step.over {
				t.Errorf("after %v: over %v", step.after, over)
			}
			if step.does != nil {
				step.does()
			}
		}
	})
}
