package admission

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// logCases look at the log as a whole, and flood it. They are the last.
func logCases() []kitCase {
	return []kitCase{
		{"log/consistency", []string{"LOG-3", "LOG-4"}, "the tree heads of this run continue one another", func(l *play) {
			newest := l.head
			for _, older := range []uint64{1, newest.Size / 3, newest.Size / 2, newest.Size - 1} {
				l.continues(older, newest)
			}
		}},
		{"log/root", []string{"LOG-3"}, "the root is that of the entries of this run", func(l *play) {
			if l.head.Size == uint64(len(l.leaves)) && merkle.HeadOf(l.leaves) != l.head.Head {
				l.fail(fmt.Sprint(merkle.HeadOf(l.leaves)), "%v", l.head.Head)
			}
		}},
		{"log/size", []string{"HTTP-2"}, "a request that needs the size of this run is answered, and one that needs more is not-ready", func(l *play) {
			l.answersFrom(l.head.Size, http.StatusOK)
			l.answersFrom(l.head.Size+1<<20, http.StatusServiceUnavailable)
		}},
		{"log/time", []string{"LOG-1"}, "registered_at does not fall", func(l *play) { l.write(l.name("a"), l.plain()) }},
		{"flood/at-once", []string{"LOG-3", "ERR-1"}, "two hundred entries at once: each gets its receipt or a problem that says when to come again", func(l *play) { l.floods(200) }},
		{"flood/quota", []string{"REG-7a"}, "more signals than the quota of the policy allows: rate-limited, with Retry-After", func(l *play) {
			inForce, previous := l.state.Chain().Policy()
			next := *inForce
			next.Previous, next.Quotas.SignalsPerHour = &previous, 2
			l.write(l.authority, &next)
			l.enrol("loud", entry.RoleMonitor)
			x := l.did("a", entry.EffectCompensable)
			for range 2 {
				l.write(l.name("loud"), stage.Signal(x, entry.StandingMonitor, l.now()))
			}
			a := l.refuses(l.name("loud"), stage.Signal(x, entry.StandingMonitor, l.now()), entry.RateLimited)
			if l.err == nil && a.problem.RetryAfterMS <= 0 {
				l.fail("how long to wait", "%s", a.text)
			}
		}},
	}
}

// continues sees that a head continues the log of an earlier size.
func (l *play) continues(older uint64, newer verify.SignedHead) {
	if l.err != nil || older == 0 || older >= newer.Size {
		return
	}
	text, err := l.get("/v1/consistency/" + strconv.FormatUint(older, 10) + "/" + strconv.FormatUint(newer.Size, 10))
	var proof verify.Consistency
	if err == nil {
		err = json.Unmarshal(text, &proof)
	}
	if err == nil {
		err = merkle.CheckConsistency(merkle.HeadOf(l.leaves[:older]), newer.Head, proof.Path)
	}
	if err != nil {
		l.fail(fmt.Sprintf("a proof that the log of %d entries continues that of %d", newer.Size, older), "%v", err)
	}
}

// answersFrom sees with which status a request is answered that needs a size of the log, and that
// the answer says a size that the log has.
func (l *play) answersFrom(least uint64, want int) {
	if l.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx(), l.at.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.at.URL+"/v1/entries/0/receipt", http.NoBody)
	if err != nil {
		l.must(err)
		return
	}
	request.Header.Set(api.HeaderMinLogSize, strconv.FormatUint(least, 10))
	l.sent = fmt.Sprintf("GET /v1/entries/0/receipt, %s: %d", api.HeaderMinLogSize, least)
	response, err := l.at.Client.Do(request)
	if err != nil {
		l.fail("an answer within "+l.at.Limit.String(), "%v", err)
		return
	}
	defer response.Body.Close()
	size, err := strconv.ParseUint(response.Header.Get(api.HeaderLogSize), 10, 64)
	if response.StatusCode != want || err != nil || size < l.head.Size {
		l.fail(fmt.Sprintf("status %d, and %s: %d or more", want, api.HeaderLogSize, l.head.Size), "status %d, and %s: %q",
			response.StatusCode, api.HeaderLogSize, response.Header.Get(api.HeaderLogSize))
	}
}

// floods sends entries at once, and takes up what the ledger registered.
func (l *play) floods(count int) {
	entries := make([]*entry.Entry, count)
	for i := range entries {
		entries[i] = l.seal(l.name("a"), l.plain())
	}
	if l.err != nil {
		return
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	most := l.state.Size()
	ctx := l.ctx()
	for _, e := range entries {
		group.Go(func() {
			one := &play{at: l.at, ctx: func() context.Context { return ctx }}
			a := one.post(e.AppendEnvelope(nil), "application/json", true)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case one.err != nil:
				l.err = one.err
			case a.status == http.StatusCreated:
				most = max(most, a.receipt.Index+1)
			case a.problem.RetryAfterMS == 0:
				l.fail("a receipt, or a problem that says when to come again", "%s", a.text)
			}
		})
	}
	group.Wait()
	if l.err == nil {
		if err := l.follow(most); err != nil {
			l.fail("every entry below the largest index of the receipts", "%v", err)
		}
	}
}
