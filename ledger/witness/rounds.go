package witness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"recoveryledger/ledger/durable"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// The pace of the rounds (WIT-5).
const (
	// urgentBurst is how many rounds those who wait may begin at once before they wait
	// for the interval.
	urgentBurst = 8
	// skew is how far the clock of a witness may be ahead.
	skew = time.Minute
	// look is the longest time after which a changed policy is seen that nobody asks under.
	look = time.Second
	// slowest is the shortest time between two rounds of one size.
	slowest = 100 * time.Millisecond
	// keepEvery is the shortest time between two writes of the witnessed head.
	keepEvery = time.Second
	// noteRoom is what a witnessed head leaves of the size that verifiers read, for what
	// the log signs beside Ed25519.
	noteRoom = 16 << 10
	// freshens is how many rounds a log without new entries has in the time for which
	// a cosignature is fresh.
	freshens = 3
	// recentRounds is for how many rounds late cosignatures count.
	recentRounds = 16
)

// Source is the log whose heads are witnessed.
type Source interface {
	// Newest returns the newest head, signed by the log's Ed25519 keys alone.
	Newest() verify.SignedHead
	// Wait returns when the log has at least size entries, or with the error of ctx.
	Wait(ctx context.Context, size uint64) error
	// HeadAt returns the head that the log had at a size.
	HeadAt(size uint64) (merkle.Head, error)
	Consistency(older, newer uint64) ([]merkle.Hash, error)
}

// RoundsConfig says whom the rounds ask, and how often. Source, Root and Terms are
// required.
type RoundsConfig struct {
	Source Source
	Root   func() verify.Root // opens the log's own heads now, and checks ML-DSA-44 cosignatures by its Cosigner
	Terms  func() Terms       // now; [TermsOf] reads them from a chain of policies
	// Aligned returns the head right behind the newest index entry, if that is larger than a
	// size. Proofs by the index need no further entries under such a head (WIT-2). Nil: the log
	// has no index.
	Aligned func(above uint64) (head verify.SignedHead, ok bool)
	// Reach returns nil when the log has what was registered anywhere when the call began. Only
	// then does a larger head say that entries are lost. Nil: no other node registers entries.
	Reach  func() error
	URLs   map[string]string // submission prefixes by the names of witnesses in the policy; they go before those in the policy
	Every  time.Duration     // shortest time between two rounds that nobody waits for
	Path   string            // of the file that keeps the witnessed head; empty: it is not kept
	HTTP   *http.Client      // nil: one that follows no redirect
	Logger *slog.Logger      // nil: nobody reads it
}

// Rounds collects cosignatures. A round has one head, and asks every witness for a
// cosignature on that head; it is over when the quorum of the policy in force has
// cosigned. A witness that is slow takes the head of the moment when it is free, and
// holds up nobody (WIT-2).
type Rounds struct {
	cfg    RoundsConfig
	urgent *rate.Limiter
	// stopped takes a conflict that was found outside Run.
	stopped chan *ConflictError

	mu       sync.Mutex
	changed  chan struct{} // closed, and made anew, when anything below changes
	terms    Terms
	policies []*witnessPolicy // the one in force, then those before, the newest first
	unread   bool             // whether the policy in force cannot be read
	parties  []party
	states   map[string]*State // by verifier key
	number   int               // of the newest round
	recent   []*round          // of the policies as they are, the newest last
	offered  *round            // for those who push; nil: none yet
	since    time.Time         // when that was offered first
	waiting  uint64            // largest size that somebody waits for
	near     uint64            // largest size that somebody waits for who wants no much larger one
}

// witnessPolicy is a witness policy with its quorums, and the newest head that agents under the
// policy accept.
type witnessPolicy struct {
	Former                   // Until means nothing in the policy in force
	quorum    *verify.Quorum // nil: it names none
	emergency *verify.Quorum // nil: it has none
	// head has the cosignatures of this quorum, or of its emergency group, and of the
	// quorum in force. Its Note is empty if there is none.
	cosigned
	// aligned is the newest such head of those right behind an index entry.
	aligned cosigned
}

// cosigned is a head with cosignatures.
type cosigned struct {
	head  verify.SignedHead
	since int64 // Unix seconds: the cosignatures are not older
}

// take takes up a head, unless it is smaller, or of the same size and older cosignatures.
func (c *cosigned) take(rd *round, since int64) {
	if rd.head.Size > c.head.Size || c.head.Note == "" || rd.head.Size == c.head.Size && since >= c.since {
		c.head, c.since = verify.SignedHead{Head: rd.head.Head, Note: rd.note}, since
	}
}

// party is a witness of a witness policy.
type party struct {
	verify.Witness
	quorum *verify.Quorum // that names it
	former bool           // whether the quorum is not the one in force
}

// round is a head for which cosignatures are collected.
type round struct {
	number int // from 1
	head   verify.SignedHead
	// aligned is whether the head is right behind an index entry.
	aligned bool
	note    string // the head with the cosignatures so far
	done    bool   // whether the quorum in force has cosigned
	behind  bool   // whether a witness has a newer head, so that the quorum may never come
}

// State is how a witness answers.
type State struct {
	Name   string        `json:"name" doc:"name of the witness in the witness policy"`
	URL    string        `json:"url" doc:"submission prefix; empty: no URL is known, and the ledger does not ask the witness"`
	Size   uint64        `json:"size" doc:"size of the newest tree head that the witness cosigned"`
	At     int64         `json:"at" doc:"time of that cosignature, Unix seconds; 0: there is none yet"`
	Failed string        `json:"failed" doc:"why the newest answer of the witness is no cosignature; empty: the answer is one"`
	Former bool          `json:"former" doc:"whether only an earlier policy names the witness"`
	Took   time.Duration `json:"-"` // round trip of the newest answer

	Cosigned uint64 `json:"-"` // cosignatures since the start
	Failures uint64 `json:"-"` // other answers since the start, absent ones among them

	refuses bool // whether it says, without showing it, that the log is not the one that it knows
}

// NewRounds returns rounds that have the witnessed head that was kept. The error is of
// the file that keeps it, or a [*ConflictError] if the log does not have that head.
func NewRounds(c RoundsConfig) (*Rounds, error) {
	if c.HTTP == nil {
		c.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Rounds{cfg: c, stopped: make(chan *ConflictError, 1), changed: make(chan struct{}), states: map[string]*State{},
		urgent: rate.NewLimiter(rate.Every(max(c.Every, time.Millisecond)), urgentBurst)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	if err := r.restore(); err != nil {
		return nil, err
	}
	return r, nil
}

// restore takes up the head that was kept, if the quorum in force has cosigned it. What
// the file says counts for nothing without the signatures.
func (r *Rounds) restore() error {
	if r.cfg.Path == "" || r.inForce().quorum == nil {
		return nil
	}
	content, err := os.ReadFile(r.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("witness: read the witnessed head: %w", err)
	}
	opened, err := r.cfg.Root().Head(content)
	if err == nil {
		head := verify.SignedHead{Head: opened, Note: string(content)}
		conflict, err := r.compare("the file "+r.cfg.Path, head)
		if err != nil {
			return err
		}
		if conflict != nil {
			return conflict
		}
		if r.settle(&round{head: head, note: head.Note}); r.inForce().head.Note != "" {
			return nil
		}
	}
	r.cfg.Logger.Warn("the kept witnessed head has no quorum of the policy in force: the ledger asks the witnesses again", "file", r.cfg.Path)
	return nil
}

// inForce returns the policy in force; its caller holds the mutex.
func (r *Rounds) inForce() *witnessPolicy { return r.policies[0] }

// Witnessed returns the newest head that the quorum in force has cosigned, with its
// cosignatures, and since when (Unix seconds); its Note is empty if there is none. named
// reports whether the policy in force names a quorum.
func (r *Rounds) Witnessed() (head verify.SignedHead, since int64, named bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	l := r.inForce()
	return l.head, l.since, l.quorum != nil || r.unread
}

// States returns how the witnesses answer: those of the policy in force, then those of
// the policies before, each by name.
func (r *Rounds) States() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	var list []State
	for _, state := range r.states {
		list = append(list, *state)
	}
	slices.SortFunc(list, func(a, b State) int {
		if a.Former != b.Former {
			return map[bool]int{false: -1, true: 1}[a.Former]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// notify wakes all who look at what the mutex guards; its caller holds it.
func (r *Rounds) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// refresh takes up the terms of now; its caller holds the mutex. Whoever asks for a head
// does so before: no head is given for a witnessed one under a policy that is in force no
// more.
func (r *Rounds) refresh() {
	terms := r.cfg.Terms()
	if r.policies != nil && terms.Policy == r.terms.Policy && terms.MaxAge == r.terms.MaxAge && slices.Equal(terms.Former, r.terms.Former) {
		return
	}
	before := r.recent
	for _, l := range r.policies {
		for _, c := range []cosigned{l.aligned, l.cosigned} {
			if c.head.Note != "" {
				before = append(before, &round{head: c.head, note: c.head.Note, aligned: c == l.aligned})
			}
		}
	}
	r.terms, r.recent, r.offered = terms, nil, nil // a witness that is being asked answers for a round that is over
	r.read()
	for _, rd := range before {
		r.settle(rd)
	}
	r.notify()
}

// read reads the witness policies of the terms, and finds their witnesses.
func (r *Rounds) read() {
	former := slices.Insert(slices.Clone(r.terms.Former), 0, Former{Policy: r.terms.Policy, MaxAge: r.terms.MaxAge})
	r.policies, r.parties = nil, nil
	states := map[string]*State{}
	for i, f := range former {
		l := &witnessPolicy{Former: f}
		var err error
		if l.quorum, err = r.cfg.Root().Quorum(f.Policy); err != nil && i == 0 { // such a policy is not admitted; an imported log may have one
			r.cfg.Logger.Error("NO WITNESS IS ASKED FOR COSIGNATURES: the ledger cannot read the witness policy in force", "error", err.Error())
		}
		if i == 0 {
			r.unread = err != nil
		}
		r.policies = append(r.policies, l)
		if l.quorum == nil || i > 0 && f.Policy == r.terms.Policy {
			continue
		}
		l.emergency = l.quorum.Emergency()
		for _, w := range l.quorum.Witnesses() {
			if states[w.Key] != nil || i > 0 && !l.quorum.Counts(w.Name) && (l.emergency == nil || !l.emergency.Counts(w.Name)) {
				continue
			}
			w.URL = r.urlOf(w)
			r.parties = append(r.parties, party{w, l.quorum, i > 0})
			if states[w.Key] = r.states[w.Key]; states[w.Key] == nil {
				states[w.Key] = new(State)
			}
			states[w.Key].Name, states[w.Key].URL, states[w.Key].Former = w.Name, w.URL, i > 0
		}
	}
	r.states = states
}

// urlOf returns where a witness is asked; empty: nowhere.
func (r *Rounds) urlOf(w verify.Witness) string {
	if own, ok := r.cfg.URLs[w.Name]; ok {
		w.URL = own
	}
	prefix, err := ParseURL(w.URL)
	if err != nil && w.URL != "" {
		r.cfg.Logger.Warn("the ledger does not ask a witness", "witness", w.Name, "error", err.Error())
	}
	return prefix
}

// Run collects cosignatures until ctx ends; then it returns nil. Any other error is a
// [*ConflictError]: the log must not go on, and [NewRounds] refuses it from then on.
func (r *Rounds) Run(ctx context.Context) error {
	return r.condemn(r.run(ctx))
}

// condemn keeps the head that a conflict is about in the place of the witnessed head. The
// log does not have that head, so that no later process goes on with the log, whether or
// not the witness answers then. A newer copy of the log has the head, and goes on.
func (r *Rounds) condemn(err error) error {
	conflict, ok := errors.AsType[*ConflictError](err)
	if !ok || conflict.Words || r.cfg.Path == "" {
		return err
	}
	if failed := durable.Write(r.cfg.Path, []byte(conflict.Head.Note), 0o644); failed != nil {
		r.cfg.Logger.Error("the ledger could not keep the tree head of a witness: the next start knows this head only if the witness answers", "error", failed.Error())
	}
	return err
}

func (r *Rounds) run(ctx context.Context) error {
	for ctx.Err() == nil {
		group, under := errgroup.WithContext(ctx)
		r.mu.Lock()
		terms, asked := r.terms, r.parties
		r.mu.Unlock()
		under, over := context.WithCancel(under)
		for _, w := range asked {
			if w.URL != "" {
				group.Go(func() error { return r.ask(under, w) })
			}
		}
		if r.cfg.Path != "" {
			group.Go(func() error { return r.keep(under) })
		}
		group.Go(func() error {
			select {
			case conflict := <-r.stopped:
				return conflict
			case <-under.Done():
				return nil
			}
		})
		group.Go(func() error { defer over(); return r.pace(under, terms) })
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// keep writes the witnessed head to its file until ctx ends, beside the rounds: a head
// that is not written yet when the process ends is collected again.
func (r *Rounds) keep(ctx context.Context) error {
	kept := ""
	for {
		r.mu.Lock()
		signed, changed := r.inForce().head.Note, r.changed
		r.mu.Unlock()
		if signed != kept && signed != "" {
			if err := durable.Write(r.cfg.Path, []byte(signed), 0o644); err != nil {
				r.cfg.Logger.Error("the ledger could not keep the witnessed head", "error", err.Error())
			}
			kept = signed
			select {
			case <-time.After(keepEvery):
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
