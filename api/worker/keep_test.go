package worker_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/worker"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

const origin = "ledger.example/test"

// office answers as a coordinator does, in the time of the test. TestKeepOnLedger
// keeps claims on a real one.
type office struct {
	t      *testing.T
	config *worker.Config
	began  time.Time

	mu      sync.Mutex
	session string
	tasks   map[entry.Ref]*held
	asked   []request
	front   func(ctx context.Context, r request) error // may keep a request from the office
	back    func(ctx context.Context, r request) error // may keep its answer back
}

// held is a task as the office knows it.
type held struct {
	epoch, seq int64
	term       time.Duration
	until      time.Time
}

// request is one that asks for renewals.
type request struct {
	at     time.Duration
	leases int
	whole  bool // POST /v1/leases
}

func newOffice(t *testing.T) *office {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	signer, err := keys.NewSigner(private)
	must(t, err)
	o := &office{t: t, began: time.Now(), session: "first", tasks: map[entry.Ref]*held{}}
	c, err := client.New("http://office", verify.Root{}, &client.Config{HTTP: &http.Client{Transport: o}})
	must(t, err)
	o.config = &worker.Config{Client: c, Origin: origin, Agent: "agent", Signer: signer}
	return o
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// give assigns a task to the agent, which takes it.
func (o *office) give(id string, term time.Duration) *worker.Claim {
	o.t.Helper()
	ref := entry.NewRef("olga", id)
	o.mu.Lock()
	o.tasks[ref] = &held{epoch: 1, term: term, until: time.Now().Add(term)}
	o.mu.Unlock()
	c, err := worker.Wait(o.t.Context(), o.config, ref, true)
	must(o.t, err)
	return c
}

// keep keeps a claim until the context that it returns ends, by end or because the
// claim is lost. gone is closed when nothing is kept any more.
func (o *office) keep(c *worker.Claim) (ctx context.Context, end context.CancelCauseFunc, gone chan struct{}) {
	ctx, end = context.WithCancelCause(o.t.Context())
	gone = make(chan struct{})
	go func() {
		defer close(gone)
		c.Keep(ctx, end)
	}()
	return ctx, end, gone
}

// RoundTrip implements [http.RoundTripper].
func (o *office) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet {
		return o.answer(r, http.StatusOK, o.task(entry.Ref(strings.TrimPrefix(r.URL.Path, "/v1/tasks/"))))
	}
	body, err := io.ReadAll(r.Body)
	must(o.t, err)
	renewal, err := entry.DecodeRenewal(body)
	must(o.t, err)
	asked := request{time.Since(o.began), len(renewal.Leases), r.URL.Path == "/v1/leases"}
	o.mu.Lock()
	o.asked = append(o.asked, asked)
	front, back := o.front, o.back
	o.mu.Unlock()
	if front != nil {
		if err := front(r.Context(), asked); err != nil {
			return nil, err
		}
	}
	var all api.Renewed
	for i := range renewal.Leases {
		all.Leases = append(all.Leases, o.renew(renewal, i))
	}
	if back != nil {
		if err := back(r.Context(), asked); err != nil {
			return nil, err
		}
	}
	switch one := all.Leases[0]; {
	case asked.whole:
		return o.answer(r, http.StatusOK, all)
	case one.Problem != nil:
		return o.answer(r, one.Problem.Status, one.Problem)
	default:
		return o.answer(r, http.StatusOK, one.Lease)
	}
}

func (o *office) answer(r *http.Request, status int, v any) (*http.Response, error) {
	body, err := json.Marshal(v)
	must(o.t, err)
	mediaType := api.MediaJSON
	if status != http.StatusOK {
		mediaType = api.MediaProblem
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {mediaType}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func (o *office) task(ref entry.Ref) *api.Task {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.tasks[ref]
	return &api.Task{Task: ref, State: entry.TaskAssigned, Agent: "agent", Epoch: one.epoch, Lease: o.lease(ref, one)}
}

func (o *office) lease(ref entry.Ref, one *held) *api.Lease {
	return &api.Lease{Task: ref, Agent: "agent", Epoch: one.epoch, Session: o.session, Seq: one.seq, TermMS: one.term.Milliseconds(), RenewMS: one.term.Milliseconds() / 3}
}

func (o *office) renew(r *entry.SignedRenewal, i int) api.RenewedLease {
	o.mu.Lock()
	defer o.mu.Unlock()
	named := &r.Leases[i]
	one := o.tasks[named.Task]
	refuse := func(problem entry.Problem, field string) api.RenewedLease {
		return api.RenewedLease{Problem: api.NewProblem(entry.Refuse(problem, field, "refused"))}
	}
	switch {
	case named.Epoch != one.epoch:
		return refuse(entry.StaleEpoch, "leases[0].epoch")
	case !time.Now().Before(one.until):
		return refuse(entry.StateConflict, "leases[0].task")
	case r.Session != o.session:
		return refuse(entry.StateConflict, "session")
	case r.Seq <= one.seq:
		return refuse(entry.StateConflict, "seq")
	}
	one.seq, one.until = r.Seq, time.Now().Add(one.term)
	return api.RenewedLease{Lease: o.lease(named.Task, one)}
}

// requests returns how many asked for one lease, and for several.
func (o *office) requests() (alone, together int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.asked {
		if r.whole {
			together++
		} else {
			alone++
		}
	}
	return alone, together
}

// kept keeps claims, each begun some seconds after the one before, and holds all of
// them to be held after a time.
func (o *office) kept(n int, apart, wait time.Duration) {
	o.t.Helper()
	var ends []context.CancelCauseFunc
	var all []context.Context
	var gone []chan struct{}
	for i := range n {
		time.Sleep(apart)
		ctx, end, over := o.keep(o.give(fmt.Sprint(i), 90*time.Second))
		ends, all, gone = append(ends, end), append(all, ctx), append(gone, over)
	}
	time.Sleep(wait)
	for i := range all {
		if err := context.Cause(all[i]); err != nil {
			o.t.Errorf("claim %d: %v, after %v", i, err, o.asked)
		}
		ends[i](nil)
		<-gone[i]
	}
}

// TestOneClaimIsKeptAlone keeps the only claim of an agent: a request a period.
func TestOneClaimIsKeptAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.kept(1, 0, 301*time.Second)
		if alone, together := o.requests(); alone != 10 || together != 0 {
			t.Errorf("%d requests for one lease, %d for several", alone, together)
		}
	})
}

// TestClaimsAreKeptTogether keeps claims that began at different times: one request
// a period, from the first on.
func TestClaimsAreKeptTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.kept(3, 5*time.Second, 301*time.Second)
		if alone, together := o.requests(); alone != 0 || together != 10 {
			t.Errorf("%d requests for one lease, %d for several", alone, together)
		}
		if slices.ContainsFunc(o.asked, func(r request) bool { return r.leases != 3 }) {
			t.Errorf("%v", o.asked)
		}
	})
}

// TestMoreClaimsThanARenewalNames keeps one more than one renewal may name.
func TestMoreClaimsThanARenewalNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.kept(entry.MaxLeases+1, 0, 31*time.Second)
		if alone, together := o.requests(); alone != 1 || together != 1 || !slices.ContainsFunc(o.asked, func(r request) bool { return r.leases == entry.MaxLeases }) {
			t.Errorf("%v", o.asked)
		}
	})
}

// TestLongTermsAreNotTakenAlongBefore keeps a short term beside a long one, which is
// renewed at most twice as often as it has to be.
func TestLongTermsAreNotTakenAlongBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		short, endShort, goneShort := o.keep(o.give("short", 3*time.Second))
		long, endLong, goneLong := o.keep(o.give("long", 90*time.Second))
		time.Sleep(300*time.Second + time.Millisecond)
		if short.Err() != nil || long.Err() != nil {
			t.Error(context.Cause(short), context.Cause(long))
		}
		if alone, together := o.requests(); together < 10 || together > 20 || alone+together < 300 || alone+together > 320 {
			t.Errorf("%d requests for one lease, %d for several", alone, together)
		}
		endShort(nil)
		endLong(nil)
		<-goneShort
		<-goneLong
	})
}

// TestTogetherCostsNoLease lets requests for several leases go wrong in each way, for
// ever, or every request take as long as a claim alone bears: nothing is lost.
func TestTogetherCostsNoLease(t *testing.T) {
	refuse := errors.New("no connection")
	wait := func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for name, front := range map[string]func(context.Context, request) error{
		"dropped": func(ctx context.Context, r request) error {
			if r.whole {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		},
		"refused": func(_ context.Context, r request) error {
			if r.whole {
				return refuse
			}
			return nil
		},
		"every other": func(_ context.Context, r request) error {
			if int(r.at/(10*time.Second))%2 == 0 {
				return refuse
			}
			return nil
		},
		"slow": func(ctx context.Context, _ request) error { return wait(ctx, 29*time.Second) },
		"stalled": func(ctx context.Context, r request) error { // answers come when that is over
			if r.at < 100*time.Second {
				return nil
			}
			return wait(ctx, 145*time.Second-r.at)
		},
		"away": func(_ context.Context, r request) error { // says what stands between
			if r.at/(50*time.Second)%2 == 0 {
				return nil
			}
			return api.NewStatus([]int{http.StatusInternalServerError, http.StatusBadGateway}[r.leases%2], "", "")
		},
		"swallowed": func(ctx context.Context, r request) error { // by a connection that is gone without a word
			if r.at > 100*time.Second && r.at < 130*time.Second {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		},
		"just slow": func(ctx context.Context, _ request) error { return wait(ctx, 3*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				o.front = front
				o.kept(4, 3*time.Second, 10*time.Minute)
			})
		})
	}
}

// TestOneOfManyIsLost has the coordinator give one of three tasks to another: its
// claim alone is lost. Then the coordinator starts again, and nothing is.
func TestOneOfManyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		one, _, oneGone := o.keep(o.give("one", 90*time.Second))
		two, endTwo, twoGone := o.keep(o.give("two", 90*time.Second))
		three, endThree, threeGone := o.keep(o.give("three", 90*time.Second))
		time.Sleep(45 * time.Second)
		o.mu.Lock()
		o.tasks["olga#one"].epoch++
		o.mu.Unlock()
		time.Sleep(16 * time.Second)
		if <-oneGone; !errors.Is(context.Cause(one), worker.ErrLeaseLost) || two.Err() != nil || three.Err() != nil {
			t.Errorf("%v, %v, %v", context.Cause(one), context.Cause(two), context.Cause(three))
		}
		o.mu.Lock()
		o.session, o.asked = "second", nil
		for _, task := range o.tasks {
			task.seq = 0
		}
		o.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if alone, together := o.requests(); two.Err() != nil || three.Err() != nil || alone > 4 || together < 19 || together > 21 {
			t.Errorf("%v, %v; %d requests for one lease, %d for several", context.Cause(two), context.Cause(three), alone, together)
		}
		endTwo(nil)
		endThree(nil)
		<-twoGone
		<-threeGone
	})
}

// TestOthersGoOn ends the claim whose request renews another's lease, while that is
// under way: the other is renewed by itself at once.
func TestOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.front = func(ctx context.Context, r request) error {
			if r.whole {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		_, end, gone := o.keep(o.give("one", 90*time.Second))
		time.Sleep(time.Second)
		other, endOther, goneOther := o.keep(o.give("two", 90*time.Second))
		time.Sleep(30 * time.Second) // a second after the request began
		end(nil)
		<-gone
		synctest.Wait()
		if want := []request{{30 * time.Second, 2, true}, {31 * time.Second, 1, false}}; !slices.Equal(o.asked, want) || other.Err() != nil {
			t.Errorf("%v, want %v", o.asked, want)
		}
		endOther(nil)
		<-goneOther
	})
}

// TestNobodyAnswers keeps claims without a coordinator: all are lost when their term
// is over, and not before.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		term := 90*time.Second + 100*time.Millisecond
		o.front = func(context.Context, request) error { return errors.New("no connection") }
		one, _, oneGone := o.keep(o.give("one", term))
		two, _, twoGone := o.keep(o.give("two", term))
		<-oneGone
		<-twoGone
		if !errors.Is(context.Cause(one), worker.ErrLeaseLost) || !errors.Is(context.Cause(two), worker.ErrLeaseLost) || time.Since(o.began) != term {
			t.Errorf("%v, %v after %v", context.Cause(one), context.Cause(two), time.Since(o.began))
		}
	})
}

// TestLateAnswerCountsFromItsRequest has a request for a long and two short leases
// answered when the short ones have been renewed since, and one of them is taken along
// by another request: it is no older for that.
func TestLateAnswerCountsFromItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		var late atomic.Int64
		late.Store(int64(5950 * time.Millisecond)) // from 100 s on, to when a short one is taken along
		o.back = func(ctx context.Context, r request) error {
			if !r.whole {
				return nil
			}
			select {
			case <-time.After(time.Duration(late.Swap(int64(time.Hour)))):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var ends []context.CancelCauseFunc
		var gone []chan struct{}
		var all []context.Context
		for i, term := range []time.Duration{300 * time.Second, 3 * time.Second, 3 * time.Second} {
			ctx, end, over := o.keep(o.give(fmt.Sprint(i), term))
			all, ends, gone = append(all, ctx), append(ends, end), append(gone, over)
			if i == 0 {
				time.Sleep(99500 * time.Millisecond)
			}
		}
		time.Sleep(60 * time.Second)
		for i := range all {
			if err := context.Cause(all[i]); err != nil {
				t.Errorf("%v: %v", err, o.asked)
			}
			ends[i](nil)
			<-gone[i]
		}
	})
}
