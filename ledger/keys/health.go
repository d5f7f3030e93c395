package keys

import (
	"sync"
	"time"
)

// Used is told of each signature that a KMS was asked for: how long the answer took, and the error
// if there is no signature. Several may be told at once.
type Used func(took time.Duration, err error)

// health keeps what the last questions to a KMS showed. A KMS that failed is asked again after a
// pause, by one caller at a time; until then every caller gets the error at once, and nobody waits
// behind others for a KMS that is away.
type health struct {
	used Used // nil: nobody is told; set before the first question

	mu     sync.Mutex
	err    error     // of the last question; nil: it was answered
	next   time.Time // of the next question
	pause  time.Duration
	asking bool // whether a caller asks again
}

// ask asks a question, unless the KMS has just failed.
func (h *health) ask(question func() ([]byte, error)) ([]byte, error) {
	if err := h.enter(time.Now()); err != nil {
		return nil, err
	}
	began := time.Now()
	sig, err := question()
	h.leave(time.Now(), err)
	if h.used != nil {
		h.used(time.Since(began), err)
	}
	return sig, err
}

// enter returns the error of the last question while the KMS is not to be asked.
func (h *health) enter(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil && (h.asking || now.Before(h.next)) {
		return h.err
	}
	h.asking = h.err != nil
	return nil
}

func (h *health) leave(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking, h.err = false, err
	if err == nil {
		h.pause = 0
		return
	}
	h.pause = min(max(2*h.pause, kmsPauseFirst), kmsPauseLongest)
	h.next = now.Add(h.pause)
}
