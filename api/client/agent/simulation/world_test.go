package simulation

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
)

const (
	origin = "ledger.example/simulation"
	start  = int64(1_790_000_000_000) // Unix milliseconds
	second = int64(1_000)
	minute = 60 * second
)

// world is one run: everything that is in it, on one queue of events. All
// randomness comes from rng, and all time from now.
type world struct {
	seed  uint64
	rng   *rand.Rand
	now   int64 // the true time, Unix milliseconds
	queue events
	turn  uint64
	steps int
	ids   uint64
	trace hash.Hash
	out   io.Writer // nil: the trace is only hashed

	plan    scenario
	changes changes
	signers map[entry.Principal]string // the keys of who signs with another one than at first
	faults  bool                       // the safety phase lasts
	keys    *keyring

	ledger      *ledger
	coordinator *coordinatorProcess
	nodes       []*node
	people      *people
	observer    *observer
}

// violation is what a run found. It ends it.
type violation struct{ text string }

// fail ends the run.
func (w *world) fail(format string, args ...any) {
	panic(violation{fmt.Sprintf(format, args...)})
}

// event is something that happens at an instant; of two at one instant the one
// that was asked for first.
type event struct {
	at   int64
	turn uint64
	name string
	do   func()
}

// events is a heap.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].turn < q[j].turn
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

// after asks for an event, delay milliseconds from now.
func (w *world) after(delay int64, name string, do func()) {
	w.turn++
	heap.Push(&w.queue, event{w.now + max(0, delay), w.turn, name, do})
}

// stepsMax is far beyond what any run needs: a run that reaches it goes round in
// circles.
const stepsMax = 400_000

// run does what is due until an instant, or until done says so.
func (w *world) run(until int64, done func() bool) {
	for len(w.queue) > 0 && w.queue[0].at <= until && !done() {
		e, _ := heap.Pop(&w.queue).(event)
		w.now = max(w.now, e.at)
		if w.steps++; w.steps > stepsMax {
			w.fail("more than %d events: the run goes round in circles", stepsMax)
		}
		w.note("%s", e.name)
		e.do()
	}
	if !done() {
		w.now = max(w.now, until)
	}
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	line := fmt.Appendf(nil, "%d ", w.now-start)
	line = append(fmt.Appendf(line, format, args...), '\n')
	_, _ = w.trace.Write(line)
	if w.out != nil {
		_, _ = w.out.Write(line)
	}
}

// chance is true in so many of a thousand cases.
func (w *world) chance(perMille int) bool { return perMille > 0 && w.rng.IntN(1000) < perMille }

// fault is chance while there are faults.
func (w *world) fault(perMille int) bool { return w.faults && w.chance(perMille) }

// between draws a duration.
func (w *world) between(least, most int64) int64 { return least + w.rng.Int64N(most-least+1) }

func pick[T any](w *world, from []T) T { return from[w.rng.IntN(len(from))] }

// newID returns the next id of an entry.
func (w *world) newID() string {
	w.ids++
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], w.ids)
	return id.String()
}

func digest(content string) entry.Digest { return entry.DigestOf(content) }

// header completes the header of a body that somebody signs at an instant.
func (w *world) header(body entry.Body, iss entry.Principal, wid entry.WorkflowID, now int64) {
	*entry.HeaderOf(body) = entry.Header{V: 1, JTI: w.newID(), Iss: iss, Aud: origin, Iat: now / 1000, Wid: wid}
}
