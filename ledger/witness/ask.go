package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// How a witness is asked (WIT-3).
const (
	answerTime   = 5 * time.Second // longest round trip
	firstPause   = time.Second     // after a failure; the next one is twice as long
	longestPause = time.Minute     // between two failures, and after a refusal that will last
	maxAnswer    = 64 << 10        // bytes
	resizes      = 2               // requests of one round from a size that the witness has named

)

// ConflictError reports that a witness has cosigned a head of this log that the log
// does not have: the log lost entries, or was forked. Going on would sign a second
// history.
type ConflictError struct {
	Witness string            // its name in the witness policy; with Words, the names of several
	Words   bool              // whether nothing but the words of as many as make the quorum says so
	Head    verify.SignedHead // signed by the log's own key, as the witness shows it; without Words
	Size    uint64            // of the log here
	Fork    *verify.ForkError // evidence against the log; nil: the head here is the smaller one
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Words {
		return fmt.Sprintf("witness: the witnesses %s, which make the quorum, say that they cosigned another history of this log, or more than the %d entries here", e.Witness, e.Size)
	}
	if e.Fork != nil {
		return fmt.Sprintf("witness: %s has cosigned another history of this log: %v", e.Witness, e.Fork)
	}
	return fmt.Sprintf("witness: %s has cosigned size %d of this log, and the log here has size %d: entries are lost", e.Witness, e.Head.Size, e.Size)
}

// Unwrap returns the fork, if there is one.
func (e *ConflictError) Unwrap() error {
	if e.Fork == nil {
		return nil
	}
	return e.Fork
}

// StatusError reports another answer of a witness than a cosignature.
type StatusError struct {
	Code int
	Text string // the beginning of its answer
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("witness: status %d: %.200q", e.Code, e.Text)
}

// ask asks a witness for cosignatures, round after round, until ctx ends. Any other
// error is a [*ConflictError].
func (r *Rounds) ask(ctx context.Context, w party) error {
	var old uint64
	var pause time.Duration
	for done := 0; ; {
		rd := r.next(ctx, done)
		if rd == nil {
			return nil
		}
		var err error
		if old, err = r.round(ctx, w, rd, old); err == nil || errors.Is(err, errOver) {
			done, pause = rd.number, 0
			continue
		}
		if conflict, ok := errors.AsType[*ConflictError](err); ok {
			return conflict
		}
		if ctx.Err() == nil {
			r.fail(w, err)
		}
		pause = min(max(2*pause, firstPause), longestPause)
		if status, ok := errors.AsType[*StatusError](err); ok && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
			pause = longestPause // the witness does not know the log yet
		}
		again := time.NewTimer(pause + rand.N(pause/4)) //nolint:gosec // jitter, nothing secret
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil
		}
	}
}

// round asks a witness once for a cosignature on the head of a round, from the size
// that it cosigned last, and returns the size that it has cosigned now.
func (r *Rounds) round(ctx context.Context, w party, rd *round, old uint64) (uint64, error) {
	for again := 0; ; again++ {
		began := time.Now()
		answer, err := r.addCheckpoint(ctx, w.URL, old, rd.head)
		if err == nil {
			return rd.head.Size, r.add(rd, w, answer, time.Since(began))
		}
		size, moved := errors.AsType[*SizeError](err)
		if moved {
			if err := r.reach(size.Size); err != nil {
				return old, err
			}
		}
		switch {
		case moved && size.Size > r.cfg.Source.Newest().Size, !moved && isStatus(err, http.StatusUnprocessableEntity):
			return 0, r.judge(ctx, w, err)
		case !moved || again == resizes:
			return old, err
		case size.Size > rd.head.Size: // this round is over for the witness: it has a newer head
			r.overtaken(rd)
			return size.Size, nil
		case size.Size == old:
			return old, r.judge(ctx, w, err) // two roots of one size
		}
		old = size.Size
	}
}

// reach returns nil if the log has a size, or if nobody has it: a node of a cluster may be behind
// the node that the witness heard of.
func (r *Rounds) reach(size uint64) error {
	if r.cfg.Reach == nil || size <= r.cfg.Source.Newest().Size {
		return nil
	}
	return r.cfg.Reach()
}

// overtaken notes that a witness has cosigned a newer head than that of a round.
func (r *Rounds) overtaken(rd *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !rd.behind {
		rd.behind = true
		r.notify()
	}
}

func isStatus(err error, code int) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Code == code
}

// addCheckpoint sends a head. The error is a [*SizeError], a [*StatusError], or that of
// the connection.
func (r *Rounds) addCheckpoint(ctx context.Context, prefix string, old uint64, head verify.SignedHead) (string, error) {
	q := &Request{Old: min(old, head.Size), Note: head.Note}
	if q.Old > 0 && q.Old < head.Size {
		path, err := r.cfg.Source.Consistency(q.Old, head.Size)
		if err != nil {
			return "", err
		}
		q.Proof = path
	}
	code, answer, err := r.call(ctx, http.MethodPost, prefix+pathAddCheckpoint, q.Append(nil))
	switch {
	case err != nil:
		return "", err
	case code == http.StatusOK:
		return answer, nil
	case code == http.StatusConflict:
		size, err := parseSize(answer)
		if err != nil {
			return "", err
		}
		return "", &SizeError{Size: size}
	}
	return "", &StatusError{Code: code, Text: answer}
}

// call makes one request to a witness.
func (r *Rounds) call(ctx context.Context, method, url string, body []byte) (code int, answer string, err error) {
	ctx, over := context.WithTimeout(ctx, answerTime)
	defer over()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := r.cfg.HTTP.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, string(content), err
}

// judge looks at what a witness has cosigned after it refused a head. A head with the
// log's own signature stops the log; the word of a witness alone does not, and that of as
// many as make the quorum does. It returns a [*ConflictError], or the refusal.
func (r *Rounds) judge(ctx context.Context, w party, refusal error) error {
	r.cfg.Logger.Error("A WITNESS REFUSES THE LOG'S TREE HEAD", "witness", w.Name, "error", refusal.Error())
	code, shown, err := r.call(ctx, http.MethodGet, w.URL+checkpointPath(r.cfg.Root().Origin), nil)
	if err != nil || code != http.StatusOK {
		return r.word(w, refusal)
	}
	seen, err := r.cfg.Root().Head([]byte(shown))
	if err != nil {
		return r.word(w, refusal)
	}
	conflict, err := r.compare(w.Name, verify.SignedHead{Head: seen, Note: shown})
	if err != nil || conflict == nil {
		return errors.Join(refusal, err)
	}
	return conflict
}

// word notes that a witness says, and does not show, that the log is another one than it
// knows. Where as many say so as make the quorum in force, and not one alone, that is a
// [*ConflictError].
func (r *Rounds) word(w party, refusal error) error {
	size := r.cfg.Source.Newest().Size
	r.mu.Lock()
	defer r.mu.Unlock()
	if state := r.states[w.Key]; state != nil {
		state.refuses = true
	}
	var names []string
	q := r.inForce().quorum
	if q == nil {
		return refusal
	}
	for _, other := range r.parties {
		if !other.former && r.states[other.Key].refuses && q.Counts(other.Name) {
			names = append(names, other.Name)
		}
	}
	if len(names) < 2 || !q.Reached(func(name string) bool { return slices.Contains(names, name) }) {
		return refusal
	}
	return &ConflictError{Witness: strings.Join(names, ", "), Words: true, Size: size}
}

// compare compares a head that the log's key has signed with the log; nil: the log has
// it.
func (r *Rounds) compare(witness string, seen verify.SignedHead) (*ConflictError, error) {
	if err := r.reach(seen.Size); err != nil {
		return nil, err
	}
	newest := r.cfg.Source.Newest()
	conflict := &ConflictError{Witness: witness, Head: seen, Size: newest.Size}
	if seen.Size > newest.Size {
		return conflict, nil
	}
	began, err := r.cfg.Source.HeadAt(seen.Size)
	if err != nil || began == seen.Head {
		return nil, err
	}
	conflict.Fork = &verify.ForkError{First: seen.Note, Second: newest.Note,
		Detail: fmt.Sprintf("signed roots of size %d: %s, and here %s", seen.Size, seen.Root, began.Root)}
	if seen.Size == newest.Size {
		return conflict, nil
	}
	path, err := r.cfg.Source.Consistency(seen.Size, newest.Size)
	if err != nil || merkle.CheckConsistency(began, newest.Head, path) != nil {
		return conflict, err
	}
	conflict.Fork.Root, conflict.Fork.Path = &began.Root, path
	return conflict, nil
}

// Boot asks all witnesses once, before the log signs anything: what a witness has
// cosigned shows a data directory that was restored from an old copy together with its
// anchor. It reports whether a quorum has cosigned the newest head. The error is a
// [*ConflictError], as of [Rounds.Run].
func (r *Rounds) Boot(ctx context.Context) (quorum bool, _ error) {
	newest := r.cfg.Source.Newest()
	r.mu.Lock()
	asked, named := r.parties, r.inForce().quorum != nil
	r.mu.Unlock()
	if newest.Size == 0 || len(asked) == 0 {
		return !named, nil
	}
	r.begin(&round{head: newest})
	rd := r.next(ctx, 0)
	if rd == nil {
		return false, nil
	}
	var group errgroup.Group
	for _, w := range asked {
		group.Go(func() error {
			if w.URL == "" {
				return nil
			}
			_, err := r.round(ctx, w, rd, 0)
			if conflict, ok := errors.AsType[*ConflictError](err); ok {
				return conflict
			}
			if err != nil {
				r.fail(w, err)
			}
			return nil
		})
	}
	err := group.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return !named || rd.done && r.inForce().quorum != nil, r.condemn(err)
}
