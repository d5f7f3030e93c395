package witness

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"recoveryledger/verify"
)

// Want says for which use a witnessed head is wanted.
type Want struct {
	Size uint64 // entries that it covers at least
	// Most is how many entries it should cover at most; 0: any number. A larger head is given
	// where the rounds have passed that number.
	Most uint64
	// Agent is whether it is for an agent, which wants fresh cosignatures, and those of
	// the quorum of the policy that it has accepted beside those of the one in force.
	Agent bool
	From  uint64 // entries of the head that the agent accepted last; 0: this is its first contact
}

// ErrNoQuorum reports that no quorum of witnesses is named.
var ErrNoQuorum = errors.New("witness: the policy in force names no quorum of witnesses")

// Wait returns a witnessed head. It begins a round at once if that is needed and the
// pace allows. The error is that of ctx, or [ErrNoQuorum].
func (r *Rounds) Wait(ctx context.Context, w Want) (verify.SignedHead, error) {
	for {
		r.mu.Lock()
		head, ok, named := r.given(w)
		if named && !ok && (r.waiting < w.Size || w.Most > 0 && r.near < w.Size) {
			r.waiting = max(r.waiting, w.Size)
			if w.Most > 0 {
				r.near = max(r.near, w.Size)
			}
			r.notify()
		}
		changed := r.changed
		r.mu.Unlock()
		switch {
		case !named:
			return verify.SignedHead{}, ErrNoQuorum
		case ok:
			return head, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return verify.SignedHead{}, ctx.Err()
		}
	}
}

// Given returns the newest head that is good for a use; ok is false if there is none now. named
// reports whether any cosignature is wanted.
func (r *Rounds) Given(w Want) (head verify.SignedHead, ok, named bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given(w)
}

func (r *Rounds) given(w Want) (head verify.SignedHead, ok, named bool) {
	r.refresh()
	l := r.policyFor(w)
	if l.quorum == nil {
		return verify.SignedHead{}, false, r.unread
	}
	good := func(c cosigned) bool {
		return c.head.Note != "" && c.head.Size >= w.Size && (!w.Agent || l.fresh(c.since, r.inForce()))
	}
	if w.Most > 0 && w.Most < l.head.Size && l.aligned.head.Size <= w.Most && good(l.aligned) {
		return l.aligned.head, true, true
	}
	return l.head, good(l.cosigned), true
}

// fresh reports whether agents take cosignatures that are not older than since.
func (l *witnessPolicy) fresh(since int64, inForce *witnessPolicy) bool {
	return time.Since(time.Unix(since, 0)) <= min(l.MaxAge, inForce.MaxAge)
}

// policyFor returns the witness policy by which a head is good: the policy in force, unless an
// agent has accepted another one.
func (r *Rounds) policyFor(w Want) *witnessPolicy {
	if !w.Agent {
		return r.inForce()
	}
	for _, l := range slices.Backward(r.policies[1:]) {
		if w.From <= l.Until {
			if l.quorum == nil || l.Policy == r.terms.Policy {
				break
			}
			return l
		}
	}
	return r.inForce()
}

// Lacking says in words which cosignatures are missing for a use of a head, and why; empty if none
// are.
func (r *Rounds) Lacking(w Want) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok, named := r.given(w); ok || !named {
		return ""
	}
	if r.unread {
		return "the witness policy in force cannot be read"
	}
	lacking := r.lacks(r.inForce(), w)
	if l := r.policyFor(w); l != r.inForce() {
		if former := r.lacks(l, w); former != "" {
			lacking = strings.TrimPrefix(lacking+fmt.Sprintf("; for an agent that has accepted the tree head of size %d, %s", w.From, former), "; ")
		}
	}
	return lacking
}

// lacks is [Rounds.Lacking] of one witness policy.
func (r *Rounds) lacks(l *witnessPolicy, w Want) string {
	if l.quorum == nil {
		return ""
	}
	var missing []string
	there := map[string]bool{}
	for _, of := range l.quorum.Witnesses() {
		state := r.states[of.Key]
		if state == nil || !l.quorum.Counts(of.Name) {
			continue
		}
		age := time.Since(time.Unix(state.At, 0))
		why := state.Failed
		switch {
		case state.At != 0 && state.Size >= w.Size && (!w.Agent || age <= l.MaxAge):
			there[of.Name] = true
			continue
		case why != "":
		case state.At == 0 && state.URL == "":
			why = "the witness has no URL, and has pushed nothing"
		case state.At == 0:
			why = "no answer yet"
		case state.Size < w.Size:
			why = fmt.Sprintf("the witness cosigned size %d last", state.Size)
		default:
			why = fmt.Sprintf("the last cosignature is %s old", age.Round(time.Second))
		}
		missing = append(missing, fmt.Sprintf("%s (%.200s)", of.Name, why))
	}
	if l.quorum.Reached(func(name string) bool { return there[name] }) || len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("quorum %s lacks %s", l.quorum.Name(), strings.Join(missing, ", "))
}

// settle takes up a round's head wherever its cosignatures are enough; its caller holds
// the mutex.
func (r *Rounds) settle(rd *round) {
	latest := time.Now().Add(skew).Unix()
	inForce, ok := latest, !r.unread
	if q := r.inForce().quorum; q != nil {
		inForce, ok = q.Since(rd.note, latest)
	}
	if !ok {
		return
	}
	rd.done = true
	for i, l := range r.policies {
		if l.quorum == nil || rd.head.Size < l.head.Size && !rd.aligned {
			continue
		}
		since := inForce
		if i > 0 {
			at, ok := l.quorum.Since(rd.note, latest)
			if l.emergency != nil {
				if waived, enough := l.emergency.Since(rd.note, latest); enough {
					at, ok = max(at, waived), true
				}
			}
			if !ok {
				continue
			}
			since = min(at, inForce)
		}
		l.take(rd, since)
		if rd.aligned {
			l.aligned.take(rd, since)
		}
	}
}

// add adds the cosignature of a witness on the head of a round, and returns an error if
// its answer has no good one. A late one counts for some rounds more. Of several lines by
// one key the first good one is taken, in the place of an older one: a witness cannot
// make a head larger than verifiers read.
func (r *Rounds) add(rd *round, w party, answer string, took time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refresh(); !slices.Contains(r.recent, rd) && rd != r.offered {
		return errOver
	}
	text, _, _ := strings.Cut(rd.head.Note, "\n\n")
	var good string
	var at int64
	refused := ErrCosignature
	for line := range strings.Lines(answer) {
		var ok bool
		if at, ok = w.quorum.Cosigned(w.Name, text+"\n\n"+line); !ok {
			continue
		}
		if at <= time.Now().Add(skew).Unix() {
			good = line
			break
		}
		refused = ErrAhead
	}
	state := r.states[w.Key]
	switch {
	case state == nil:
		return errOver
	case good == "":
		return refused
	}
	if rd.head.Size >= state.Size {
		state.Size, state.At = rd.head.Size, at
	}
	state.Failed, state.Took, state.refuses = "", took, false
	state.Cosigned++
	if signed := replace(rd.note, good); len(signed) <= verify.MaxNote-noteRoom { // else there are enough of them
		rd.note = signed
	}
	r.settle(rd)
	r.notify()
	return nil
}

// errOver reports a cosignature on the head of a round that counts no more.
var errOver = fmt.Errorf("%w: another policy came, or many rounds, since the witness was shown that tree head", ErrNoRound)

// replace adds a good line to a signed note, in the place of an older one of its key.
func replace(signed, good string) string {
	name, hash, at := signatureOf(good)
	text, lines, _ := strings.Cut(signed, "\n\n")
	var others strings.Builder
	for line := range strings.Lines(lines) {
		if of, key, before := signatureOf(line); of != name || key != hash {
			others.WriteString(line)
		} else if before >= at {
			return signed
		}
	}
	return text + "\n\n" + others.String() + good
}

// signatureOf takes the line of a cosignature apart; other lines have no name.
func signatureOf(line string) (name string, hash uint32, at uint64) {
	fields := strings.Fields(line)
	const most = 3 // dash, name, signature
	if len(fields) != most {
		return "", 0, 0
	}
	raw, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || len(raw) < 12 { // key hash, time
		return "", 0, 0
	}
	return fields[1], binary.BigEndian.Uint32(raw), binary.BigEndian.Uint64(raw[4:])
}

// fail notes why the newest answer of a witness is no cosignature.
func (r *Rounds) fail(w party, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state := r.states[w.Key]; state != nil {
		if state.Failed == "" {
			r.cfg.Logger.Warn("a witness does not cosign", "witness", w.Name, "url", w.URL, "former", w.former, "error", err.Error())
		}
		state.Failed = err.Error()
		state.Failures++
	}
}
