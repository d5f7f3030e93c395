//go:build unix

package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/testdata/budget"
)

// TestConsoleStartsChaos starts arl console with a kept fold: the overview answers within 3 s, and
// the memory stays below 512 MiB. The large budget has the log of the goal, 10^6 entries. Of some
// starts the best one counts: others use the machine, too.
func TestConsoleStartsChaos(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	for n := (budget.Budget{Short: 1_000, Usual: 3_000, Chaos: 1_000_000}).Now(); n > 0; n -= 1_000 {
		m.bulk(1_000)
	}
	m.arl("log", "audit")
	goal := 3 * time.Second * time.Duration(budget.Budget{Short: 10, Usual: 1}.Now())
	best, memory := time.Hour, int64(0)
	for i := 0; i < 5 && best > goal; i++ {
		began := time.Now()
		c := m.console("--read-only")
		status, page := c.get("/")
		best = min(best, time.Since(began))
		if status != http.StatusOK || !strings.Contains(page, "What waits for people") {
			t.Fatalf("%d: %s", status, page)
		}
		for want := fmt.Sprintf("✓ derived here from %d entries", m.head().Size); !strings.Contains(page, want); {
			m.must(t.Context().Err())
			_, page = c.get("/")
		}
		memory = max(memory, resident(c))
		m.must(c.process.Process.Signal(syscall.SIGTERM))
		m.must(c.process.Wait())
	}
	t.Logf("%d entries: the overview answers after %v; %d MiB", m.head().Size, best, memory>>20)
	if best > goal || memory > 512<<20 {
		t.Errorf("the overview answers after %v, want %v; %d MiB, want 512", best, goal, memory>>20)
	}
}
