package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"recoveryledger/api"
)

// TestAwayIsToldOnce has nobody answer for a while, twice, and then the lease refused:
// that is told when it begins and when it is over, and why the lease is lost.
func TestAwayIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		var away atomic.Bool
		o.front = func(context.Context, request) error {
			if away.Load() {
				return errors.New("no connection")
			}
			return nil
		}
		var told []string
		o.config.Tell = func(err error) {
			word := "again"
			if problem, refused := errors.AsType[*api.Problem](err); refused {
				word = string(problem.Name())
			} else if err != nil {
				word = "away"
			}
			told = append(told, word)
		}
		_, _, gone := o.keep(o.give("one", 90*time.Second))
		for range 2 {
			away.Store(true)
			time.Sleep(40 * time.Second)
			away.Store(false)
			time.Sleep(40 * time.Second)
		}
		away.Store(true)
		time.Sleep(40 * time.Second)
		o.mu.Lock()
		o.tasks["olga#one"].epoch++
		o.mu.Unlock()
		away.Store(false)
		<-gone
		if want := "away again away again away stale-epoch"; strings.Join(told, " ") != want {
			t.Errorf("told %s, want %s", told, want)
		}
	})
}
