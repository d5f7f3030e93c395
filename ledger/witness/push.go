package witness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// offerTime is the time for which pushing witnesses are shown one head. They cosign the same head,
// so that their cosignatures make a quorum.
const offerTime = time.Second

// Errors of a push.
var (
	ErrNotAsked    = errors.New("witness: the policies name no witness that made one of the cosignatures")
	ErrCosignature = errors.New("witness: no good cosignature by the key that the policy names")
	ErrAhead       = errors.New("witness: the cosignature is of a time to come: the clock of the witness is ahead")
	ErrNoRound     = errors.New("witness: the tree head belongs to no round that is open now")
)

// Offer returns the head that witnesses shall cosign who cannot be asked and push
// instead: one that the quorum in force has cosigned, where others than they make that
// quorum; else the head of the round. It waits for a head of more than from entries
// until ctx ends, and then gives what there is. The error is that of ctx if there was
// none, or [ErrNoQuorum].
func (r *Rounds) Offer(ctx context.Context, from uint64) (verify.SignedHead, error) {
	for {
		r.mu.Lock()
		r.refresh()
		changed, asks, offered := r.changed, len(r.parties) > 0, r.offer()
		r.mu.Unlock()
		if !asks {
			return verify.SignedHead{}, ErrNoQuorum
		}
		over := ctx.Err() != nil
		if offered != nil && (offered.head.Size > from || over) {
			return offered.head, nil //nolint:nilerr // the time to wait for a larger one is over
		}
		again := time.NewTimer(offerTime)
		select {
		case <-changed:
		case <-again.C: // the next head may be offered
		case <-ctx.Done():
			if offered == nil {
				again.Stop()
				return verify.SignedHead{}, ctx.Err()
			}
		}
		again.Stop()
	}
}

// offer returns the round of the offered head; nil if there is none. Its caller holds the mutex.
func (r *Rounds) offer() *round {
	if len(r.recent) == 0 || r.offered != nil && time.Since(r.since) < offerTime {
		return r.offered
	}
	next := r.recent[len(r.recent)-1]
	if q := r.inForce().quorum; q != nil && q.Reached(func(name string) bool { return r.asked(q, name) }) {
		for _, rd := range r.recent {
			if rd.done {
				next = rd
			}
		}
	}
	if next != r.offered {
		r.offered, r.since = next, time.Now()
	}
	return r.offered
}

// asked reports whether a witness of a quorum is asked.
func (r *Rounds) asked(q *verify.Quorum, name string) bool {
	for _, w := range r.parties {
		if w.quorum == q && w.Name == name {
			return w.URL != ""
		}
	}
	return false
}

// Push takes the cosignatures on a signed head, of witnesses whom the policies name, and
// returns how many counted. The head's own signatures are not needed. The error is
// [ErrNotAsked], [ErrCosignature], [ErrAhead], [ErrNoRound], a [*verify.FormatError], an error of
// the log that was to be compared, or a [*ConflictError]: the head is signed by the log's own key,
// and the log does not have it. After that one [Rounds.Run] ends with it too.
func (r *Rounds) Push(signed string) (counted int, err error) {
	root := r.cfg.Root()
	text, lines, ok := strings.Cut(signed, "\n\n")
	if !ok || len(signed) > verify.MaxNote {
		return 0, verify.Malformed("cosigned tree head", "not a signed note of at most %d bytes", verify.MaxNote).
			WithRemedy("send the text of the tree head, an empty line, and the lines of the cosignatures")
	}
	head, extended, err := verify.ParseCheckpoint(text+"\n", root.Origin)
	if err != nil || extended {
		return 0, verify.Malformed("cosigned tree head", "%v", errors.Join(err, map[bool]error{true: errors.New("extension lines")}[extended]))
	}
	if _, err := root.Head([]byte(signed)); err == nil {
		conflict, err := r.compare("who pushed", verify.SignedHead{Head: head, Note: signed})
		if conflict != nil {
			r.stop(conflict)
			return 0, conflict
		}
		if err != nil {
			if head.Size > r.cfg.Source.Newest().Size {
				return 0, ErrNoRound // this node has not reached it
			}
			return 0, err
		}
	}
	r.mu.Lock()
	r.refresh()
	rd, parties := r.find(head), r.parties
	r.mu.Unlock()
	if rd == nil {
		return 0, ErrNoRound
	}
	refused := ErrNotAsked
	for _, w := range parties {
		name, hash, ok := keyOf(w.Key)
		if !ok {
			continue
		}
		var own strings.Builder
		for line := range strings.Lines(lines) {
			if by, key, _ := signatureOf(line); by == name && key == hash {
				own.WriteString(line)
				break // one is enough, and costs a check
			}
		}
		if own.Len() == 0 {
			continue
		}
		if err := r.add(rd, w, own.String(), 0); err != nil {
			if !errors.Is(refused, ErrCosignature) {
				refused = err
			}
			continue
		}
		counted++
	}
	if counted == 0 {
		return 0, refused
	}
	return counted, nil
}

// find returns the newest round of a head; nil if there is none. Its caller holds the
// mutex.
func (r *Rounds) find(head merkle.Head) (found *round) {
	if r.offered != nil && r.offered.head.Head == head {
		found = r.offered
	}
	for _, rd := range r.recent {
		if rd.head.Head == head {
			found = rd
		}
	}
	return found
}

// stop has Run end with a conflict.
func (r *Rounds) stop(c *ConflictError) {
	select {
	case r.stopped <- c:
	default: // it ends with another one
	}
}

// keyOf takes the name and the hash of a verifier key apart.
func keyOf(vkey string) (name string, hash uint32, ok bool) {
	name, rest, _ := strings.Cut(vkey, "+")
	_, err := fmt.Sscanf(rest, "%08x+", &hash)
	return name, hash, err == nil
}

// QuorumError reports a witness policy with a quorum that has not cosigned the log's newest head in
// one attempt.
type QuorumError struct {
	Quorum string
	Failed map[string]error // by the name of a witness, why it has not
}

// Error implements error.
func (e *QuorumError) Error() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(e.Failed)) {
		list = append(list, fmt.Sprintf("%s (%.200v)", name, e.Failed[name]))
	}
	return fmt.Sprintf("witness: quorum %s has not cosigned the newest tree head: %s", e.Quorum, strings.Join(list, ", "))
}

// Try asks the witnesses of a witness policy that is not in force yet once for
// cosignatures on the newest head. Who has no URL cannot be asked, and counts as if it had
// cosigned. The error is a [*QuorumError], a [*ConflictError] as of Push, or a
// [*verify.FormatError] if the text is no witness policy.
func (r *Rounds) Try(ctx context.Context, policy string) error {
	q, err := r.cfg.Root().Quorum(policy)
	newest := r.cfg.Source.Newest()
	if q == nil || newest.Size == 0 {
		return err
	}
	trial, err := NewRounds(RoundsConfig{Source: r.cfg.Source, Root: r.cfg.Root, Terms: func() Terms { return Terms{Policy: policy} },
		Reach: r.cfg.Reach, URLs: r.cfg.URLs, HTTP: r.cfg.HTTP, Logger: r.cfg.Logger})
	if err != nil {
		return err
	}
	if _, err := trial.Boot(ctx); err != nil {
		if conflict, ok := errors.AsType[*ConflictError](err); ok && !conflict.Words {
			r.stop(conflict)
		}
		return err
	}
	failed, good := map[string]error{}, map[string]bool{}
	for _, state := range trial.States() {
		if good[state.Name] = state.URL == "" || state.At != 0; !good[state.Name] {
			failed[state.Name] = errors.New(state.Failed)
		}
	}
	if q.Reached(func(name string) bool { return good[name] }) {
		return nil
	}
	return &QuorumError{Quorum: q.Name(), Failed: failed}
}
