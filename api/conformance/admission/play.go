package admission

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/api/conformance/stage"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// kitCase is one case of the half of the kit that registers entries.
type kitCase struct {
	name  string
	ids   []string
	about string
	play  func(l *play)
}

// play is the kit at one ledger: everybody who writes there, and a fold of its own that follows
// the log. Its verbs do nothing once something went wrong in a case.
type play struct {
	at        *Ledger
	state     *coord.State
	signers   map[entry.Principal]*keys.Signer
	authority entry.Principal
	run       string // makes the names of this run its own
	head      verify.SignedHead
	times     int64                      // registered_at of the newest entry
	leaves    []merkle.Hash              // of the entries so far
	decisions map[uint64]*entry.Decision // by index

	ctx    func() context.Context
	broken string // why no further case can be played; empty: one can
	err    error  // of the case: a *Fault, or what the kit could not do
	sent   string
	named  []string // further statements that a failure of the case is about
	n      int      // of executions
}

// reply is what a ledger answers to a submission.
type reply struct {
	status  int
	problem api.Problem
	receipt verify.Receipt
	text    string
}

// newPlay reads the log, and enrols those whom the kit plays.
func newPlay(ctx context.Context, at *Ledger) (*play, error) {
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	l := &play{at: at, state: coord.NewState(at.Root.Origin), signers: map[entry.Principal]*keys.Signer{}, decisions: map[uint64]*entry.Decision{}, run: hex.EncodeToString(id),
		ctx: func() context.Context { return ctx }}
	text, err := l.get("/v1/entries/0/receipt") // under the newest head
	if err != nil {
		return nil, fmt.Errorf("%w: the ledger must have its first policy", err)
	}
	genesis, err := verify.DecodeReceipt(text)
	if err != nil {
		return nil, err
	}
	if l.head.Head, err = at.Root.Head([]byte(genesis.Head)); err == nil && merkle.HashLeaf(genesis.Leaf) != at.Root.Genesis {
		err = errors.New("another first policy")
	}
	if err != nil {
		return nil, fmt.Errorf("conformance: the ledger is not the one of the pinned root: %w", err)
	}
	l.head.Note = genesis.Head
	if err := l.follow(l.head.Size); err != nil {
		return nil, err
	}
	l.prepare()
	return l, l.err
}

// get reads a path of the ledger.
func (l *play) get(path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(l.ctx(), l.at.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.at.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := l.at.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("conformance: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, verify.MaxReceipt))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, shortened(string(text)))
	}
	if err != nil {
		return nil, fmt.Errorf("conformance: GET %s: %w", path, err)
	}
	return text, nil
}

// follow takes up the entries below a size.
func (l *play) follow(size uint64) error {
	for index := l.state.Size(); index < size; index++ {
		text, err := l.get("/v1/entries/" + strconv.FormatUint(index, 10) + "/receipt")
		if err != nil {
			return err
		}
		receipt, err := verify.DecodeReceipt(text)
		if err != nil {
			return err
		}
		if err := l.take(receipt); err != nil {
			return err
		}
	}
	return nil
}

// take takes the entry of a receipt up, which must be the next.
func (l *play) take(r verify.Receipt) error {
	e, at, err := entry.DecodeLeaf(r.Leaf)
	if err != nil {
		return err
	}
	head, err := l.at.Root.Head([]byte(r.Head))
	if err == nil {
		err = merkle.CheckInclusion(r.Index, merkle.HashLeaf(r.Leaf), head, r.Proof)
	}
	switch {
	case err != nil:
		return err
	case at < l.times:
		return fmt.Errorf("registered_at falls from %d to %d (LOG-1)", l.times, at)
	}
	if r.Index == l.state.Size() {
		if err := l.state.Admit(e, r.Index, at); err != nil {
			l.broken = fmt.Sprintf("the log holds an entry that the rules do not admit, at index %d: %v", r.Index, err)
			return errors.New(l.broken)
		}
		l.state.Apply(e, r.Index, at)
		l.times, l.leaves = at, append(l.leaves, merkle.HashLeaf(r.Leaf))
		if d, is := e.Body.(*entry.Decision); is {
			l.decisions[r.Index] = d
		}
	}
	if head.Size > l.head.Size {
		l.head = verify.SignedHead{Head: head, Note: r.Head}
	}
	return nil
}

// fail notes what the ledger did wrong, unless something was wrong before.
func (l *play) fail(expected, got string, args ...any) {
	if l.err == nil {
		l.err = &Fault{expected, fmt.Sprintf(got, args...)}
	}
}

func (l *play) must(err error) {
	if l.err == nil && err != nil {
		l.err = err
	}
}

// name is the principal of a role in this run.
func (l *play) name(role string) entry.Principal {
	return entry.Principal("kit-" + l.run + "-" + role)
}

func (l *play) signer(by entry.Principal) *keys.Signer {
	if l.signers[by] == nil {
		_, l.signers[by] = stage.NewKey()
	}
	return l.signers[by]
}

// seal makes and signs an entry.
func (l *play) seal(by entry.Principal, body entry.Body) *entry.Entry {
	h := entry.HeaderOf(body)
	made := entry.Header{V: 1, JTI: uuid.NewString(), Iss: by, Aud: l.at.Root.Origin, Iat: time.Now().Unix(), Wid: h.Wid}
	if kind := body.Kind(); h.Wid == "" && kind != entry.KindPolicy && kind != entry.KindAgent {
		made.Wid = entry.WorkflowID("kit-" + l.run)
	}
	*h = made
	return l.sealed(by, body)
}

// sealed signs an entry whose header stands.
func (l *play) sealed(by entry.Principal, body entry.Body) *entry.Entry {
	e, err := entry.New(body)
	if err == nil {
		err = l.signer(by).Sign(e)
	}
	l.must(err)
	return e
}

// post submits bytes. Where the ledger puts them off, the kit waits as long as the ledger asks.
func (l *play) post(body []byte, media string, waits bool) (a reply) {
	for try := range MaxTries {
		a = l.postOnce(body, media)
		if !waits || l.err != nil || try == MaxTries-1 || a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
			break
		}
		Pause(l.ctx(), time.Duration(a.problem.RetryAfterMS)*time.Millisecond, l.at.Limit)
	}
	return a
}

func (l *play) postOnce(body []byte, media string) (a reply) {
	if l.err != nil {
		return a
	}
	l.sent = string(body)
	ctx, cancel := context.WithTimeout(l.ctx(), l.at.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.at.URL+"/v1/entries", bytes.NewReader(body))
	if err != nil {
		l.must(err)
		return a
	}
	request.Header.Set("Content-Type", media)
	response, err := l.at.Client.Do(request)
	if err != nil {
		l.fail("an answer within "+l.at.Limit.String(), "%v", err)
		return a
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, verify.MaxReceipt))
	if err != nil {
		l.fail("a whole answer", "%d bytes, %v", len(text), err)
		return a
	}
	a.status, a.text = response.StatusCode, fmt.Sprintf("status %d: %s", response.StatusCode, shortened(string(text)))
	if response.StatusCode >= http.StatusBadRequest {
		if json.Unmarshal(text, &a.problem) != nil || a.problem.Status != a.status {
			l.fail("problem details (RFC 9457)", "%s", a.text)
			l.named = append(l.named, "ERR-1")
		}
		return a
	}
	if media == "application/json" {
		if a.receipt, err = verify.DecodeReceipt(text); err != nil {
			l.fail("a receipt", "%v: %s", err, a.text)
			l.named = append(l.named, "HTTP-1")
		}
	}
	return a
}

// submit sends an entry that the ledger must register, and takes it up.
func (l *play) submit(e *entry.Entry) (ref entry.LogRef) {
	if l.err != nil {
		return ref
	}
	a := l.post(e.AppendEnvelope(nil), "application/json", true)
	if l.err != nil {
		return ref
	}
	if a.status != http.StatusCreated {
		l.fail("status 201 and the receipt", "%s", a.text)
		return ref
	}
	return l.taken(e, a.receipt)
}

// taken checks the receipt of an entry that was sent, and takes the entry up.
func (l *play) taken(e *entry.Entry, r verify.Receipt) (ref entry.LogRef) {
	if r.Index > l.state.Size() {
		if err := l.follow(r.Index); err != nil {
			l.fail("a log of entries that the rules admit", "%v", err)
			return ref
		}
	}
	if err := l.take(r); err != nil {
		l.fail("a receipt that verifies", "%v", err)
		return ref
	}
	logged, _, err := entry.DecodeLeaf(r.Leaf)
	if err != nil || !bytes.Equal(logged.PAE(), e.PAE()) {
		l.fail("the receipt of the entry that was sent", "index %d, %v", r.Index, err)
	}
	return entry.LogRef{Index: r.Index, LeafHash: merkle.HashLeaf(r.Leaf)}
}

// write registers an entry of somebody.
func (l *play) write(by entry.Principal, body entry.Body) entry.LogRef {
	if l.err != nil {
		return entry.LogRef{}
	}
	return l.submit(l.seal(by, body))
}

// refused sends an entry that the ledger must refuse by a problem.
func (l *play) refused(e *entry.Entry, want ...entry.Problem) reply {
	if l.err != nil {
		return reply{}
	}
	a := l.post(e.AppendEnvelope(nil), "application/json", want[0] != entry.RateLimited)
	for _, problem := range want {
		if l.err == nil && a.problem.Name() == problem && a.status == StatusOf(problem) {
			return a
		}
	}
	l.fail(fmt.Sprintf("status %d and the problem %v", StatusOf(want[0]), want), "%s", a.text)
	if a.status == http.StatusCreated || a.status == http.StatusOK {
		_ = l.follow(a.receipt.Index + 1) // the cases after this one go on from the log as it is, if they can
	}
	return a
}

// refuses is refused for an entry of somebody.
func (l *play) refuses(by entry.Principal, body entry.Body, want ...entry.Problem) reply {
	if l.err != nil {
		return reply{}
	}
	return l.refused(l.seal(by, body), want...)
}

// now is the time of the kit, in Unix milliseconds: not before that of the log.
func (l *play) now() int64 { return max(time.Now().UnixMilli(), l.times) }
