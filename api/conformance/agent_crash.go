package conformance

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
)

// crashCases kill the agent, and take answers and its memory from it.
func crashCases() []agentCase {
	return []agentCase{
		{name: "crash/in-the-undo", ids: []string{"AGT-4a", "AGT-4b"},
			about: "SIGKILL after the service has compensated and before it answers: the agent asks the service, and compensates no second time", play: func(p *play) {
				p.charged()
				p.authorized(nil)
				p.killedIn("compensate")
				p.asksBefore(charge)
				p.outcome(charge, entry.Compensated)
			}},
		{name: "crash/in-the-restore", ids: []string{"AGT-4a", "AGT-4b"}, about: "SIGKILL after the line went back and before the service answers", play: func(p *play) {
			p.write(stage.Agent, &entry.Checkpoint{Checkpoint: "c0", Digest: stateDigest})
			p.did(read, entry.EffectNone)
			p.did(drafted, entry.EffectReversible, read)
			p.fails(read)
			p.authorized(nil)
			p.killedIn("restore")
			p.outcome(drafted, entry.Restored)
		}},
		{name: "crash/twice", ids: []string{"AGT-4b"}, about: "SIGKILL in the undo, and again before the outcome is in the log", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			p.killedIn("compensate")
			p.killedAt(isOutcome, false)
			p.outcome(charge, entry.Compensated)
		}},
		{name: "crash/before-the-outcome", ids: []string{"AGT-4b"}, about: "SIGKILL when the outcome is sent, which the log does not get", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			p.start()
			p.killedAt(isOutcome, false)
			p.outcome(charge, entry.Compensated)
		}},
		{name: "crash/after-the-outcome", ids: []string{"REG-2c", "AGT-4b"}, about: "SIGKILL when the log has the outcome, and before the agent has the receipt", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			p.start()
			p.killedAt(isOutcome, true)
			p.outcome(charge, entry.Compensated)
			p.still()
			p.outcomes(1)
		}},
	}
}

// killedAtStart plays a SIGKILL when the start of the compensation is sent. logged says whether the
// log gets it.
func killedAtStart(logged bool) func(*play) {
	return func(p *play) {
		p.charged()
		p.authorized(nil)
		p.start()
		p.killedAt(isStarted, logged)
		p.does("compensate", charge)
		p.outcome(charge, entry.Compensated)
	}
}

// lostCases are those in which the agent knows least.
func lostCases() []agentCase {
	return []agentCase{
		{name: "crash/before-started", ids: []string{"EXE-2", "AGT-4a"},
			about: "SIGKILL when the start of the compensation is sent, which the log does not get: the compensation is done after all, once",
			play:  killedAtStart(false)},
		{name: "crash/after-started", ids: []string{"EXE-2", "AGT-4b"},
			about: "SIGKILL when the log has the start of the compensation: the agent finds out that nothing was done, and compensates once",
			play:  killedAtStart(true)},
		{name: "crash/lost-store", ids: []string{"AGT-4d", "EXE-4b"},
			about: "SIGKILL in the undo, and the state of the agent is gone: it asks the service under the key of the execution before " +
				"anything else", play: func(p *play) {
				p.charged()
				p.authorized(nil)
				p.gated("compensate")
				p.start()
				p.does("compensate", charge)
				if p.err != nil {
					return
				}
				p.kill()
				p.must(os.RemoveAll(filepath.Join(p.dir, "state")))
				p.must(os.Mkdir(filepath.Join(p.dir, "state"), 0o700))
				p.world.gated(nil)
				p.start()
				p.asksBefore(charge)
				p.outcome(charge, entry.Compensated, entry.ResultUnknown)
			}},
		{name: "crash/amended-meanwhile", ids: []string{"EXE-4b", "AGT-4b"},
			about: "SIGKILL in the undo, and an amend while the agent is away: the key stays, and nothing is compensated twice", play: func(p *play) {
				p.did(second, entry.EffectCompensable)
				p.charged()
				p.authorized(nil)
				p.gated("compensate")
				p.start()
				p.does("compensate", charge)
				if p.err != nil {
					return
				}
				p.kill()
				p.world.gated(nil)
				p.amended()
				p.start()
				p.does("compensate", second)
				p.outcome(charge, entry.Compensated)
				p.outcome(second, entry.Compensated)
			}},
	}
}

func isOutcome(e *entry.Entry) bool { return e.Kind == entry.KindOutcome }

func isStarted(e *entry.Entry) bool {
	x, is := e.Body.(*entry.Execution)
	return is && x.Progress == entry.Started
}

// kill ends the agent at once.
func (p *play) kill() { p.end(9) }

// gated has the world have its effects, and not answer.
func (p *play) gated(do string) {
	p.world.gated(func(e *Effect) bool { return e.Do != do })
}

// killedIn starts the agent, kills it in an undo, and starts it again.
func (p *play) killedIn(do string) {
	hold, killed := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	p.world.gated(func(e *Effect) bool {
		if e.Do == do && first.CompareAndSwap(false, true) {
			close(hold)
			<-killed
			return false
		}
		return true
	})
	p.start()
	p.until(do+" is asked for", func() bool { return closed(hold) })
	if p.err == nil {
		p.kill()
	}
	close(killed)
	p.start()
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// killedAt kills the agent when it sends an entry, before or after the log has the entry, and
// starts it again.
func (p *play) killedAt(which func(*entry.Entry) bool, registered bool) {
	hold, killed := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	p.submits(func(w http.ResponseWriter, r *http.Request, e *entry.Entry, honest http.Handler) bool {
		if !which(e) || !first.CompareAndSwap(false, true) {
			return false
		}
		if registered {
			stage.Honest(honest, r)
		}
		close(hold)
		<-killed
		panic(http.ErrAbortHandler)
	})
	p.until("the agent sends the entry", func() bool { return closed(hold) })
	if p.err == nil {
		p.kill()
	}
	close(killed)
	p.stage.Script(nil)
	p.start()
}

// submits has a script answer submissions of the agent, one entry each.
func (p *play) submits(with func(w http.ResponseWriter, r *http.Request, e *entry.Entry, honest http.Handler) bool) {
	p.stage.Script(func(w http.ResponseWriter, r *http.Request, honest http.Handler) bool {
		e := submittedIn(r)
		return e != nil && with(w, r, e, honest)
	})
}

// asksBefore sees that the agent asked the world about an undo.
func (p *play) asksBefore(of entry.Ref) {
	p.until("the agent asks the service what became of the undo (AGT-4b)", func() bool {
		p.world.mu.Lock()
		defer p.world.mu.Unlock()
		return slices.ContainsFunc(p.world.asked, func(e Effect) bool { return e.of() == of })
	})
}

// outcomes counts the outcomes in the log.
func (p *play) outcomes(want int) {
	n := 0
	for _, e := range p.entries() {
		if isOutcome(e.Entry) {
			n++
		}
	}
	if p.err == nil && n != want {
		p.fail("outcomes in the log: "+strconv.Itoa(want), "%d", n)
	}
}

// answerCases are those of a ledger and a network that answer badly.
func answerCases() []agentCase {
	plain := func(status int, body string, header ...string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // an agent that is gone needs none
		}
	}
	problem := []string{"Content-Type", "application/problem+json", "Retry-After", "1"}
	cases := []agentCase{
		p2("answer/garbage", "nonsense instead of a bundle", plain(200, "}{ no bundle")),
		p2("answer/empty", "an empty answer instead of a bundle", plain(200, "")),
		p2("answer/page", "a page for people instead of a bundle", plain(200, "<html>maintenance</html>", "Content-Type", "text/html")),
		p2("answer/failure", "status 500 instead of a bundle", plain(500, "oops")),
		p2("answer/unavailable", "status 503 with Retry-After instead of a bundle", plain(503, `{"type":"urn:agent-recovery:problem:not-ready","title":"not ready","status":503}`, problem...)),
		p2("answer/behind", "status 404 of a node that lags behind, which is no evidence of a fork",
			plain(404, `{"type":"urn:agent-recovery:problem:not-found","title":"not found","status":404}`, append([]string{"Log-Size", "1"}, problem...)...)),
		p2("answer/too-many", "status 429 with Retry-After instead of a bundle", plain(429, `{"type":"urn:agent-recovery:problem:rate-limited","title":"rate limited","status":429}`, problem...)),
		p2("answer/redirect", "a redirect to a place where nothing is", plain(307, "", "Location", "http://127.0.0.1:9/elsewhere")),
		p2("answer/circle", "a redirect to itself", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
		}),
		p2("answer/hangs-up", "the connection ends without an answer", func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }),
		p2("answer/cut", "half of a bundle", func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
			answer := stage.Honest(honest, r)
			answer.Body = answer.Body[:len(answer.Body)/2]
			answer.Send(w)
		}),
		p2("answer/huge", "a bundle that does not end", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			block := make([]byte, 1<<16)
			for range 1 << 12 { // 256 MiB: more than any agent needs
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}),
		p2("answer/slow", "a bundle of which a byte comes now and then", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			for range 100 {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush() // where it fails, the next write does
				pace(r)
				if r.Context().Err() != nil {
					return
				}
			}
		}),
	}
	return append(cases, submissionCases()...)
}

// p2 is a case in which the ledger answers the questions for a bundle badly, and well afterwards.
func p2(name, about string, with func(http.ResponseWriter, *http.Request, http.Handler)) agentCase {
	return agentCase{name: name, ids: []string{"AGT-0"}, about: about, play: func(p *play) {
		p.charged()
		p.authorized(nil)
		p.answers(with)
		p.start()
		p.until("the agent asks for its bundle", func() bool {
			for _, r := range p.stage.Seen() {
				if len(r.Path) > 7 && r.Path[len(r.Path)-7:] == "/bundle" {
					return true
				}
			}
			return false
		})
		p.still()
		if p.err == nil && p.gone() {
			p.fail("the agent asks again later", "nothing more%s", p.said())
		}
		p.honest()
		p.outcome(charge, entry.Compensated)
	}}
}

// submissionCases are those of a ledger that answers the outcome badly.
func submissionCases() []agentCase {
	type answer = func(w http.ResponseWriter, r *http.Request, honest http.Handler)
	lost := func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
		stage.Honest(honest, r)
		panic(http.ErrAbortHandler)
	}
	busy := func(status int, name string) answer {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"type":"urn:agent-recovery:problem:` + name + `","title":"later","status":` + strconv.Itoa(status) + `,"retry_after_ms":2000}`))
		}
	}
	var cases []agentCase
	for _, c := range []struct {
		name, about string
		with        answer
		pause       time.Duration
	}{
		{"outcome/lost-answer", "the log has the outcome, and the answer is lost: the same bytes again", lost, 0},
		{"outcome/garbage", "nonsense instead of the receipt of the outcome: the same bytes again", func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
			stage.Honest(honest, r)
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte("thank you"))
		}, 0},
		{"outcome/forged-receipt", "a receipt whose proof does not hold: the outcome is not taken for registered", func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
			answer := stage.Honest(honest, r)
			answer.Body = forgedReceipt(answer.Body)
			answer.Send(w)
		}, 0},
		{"outcome/too-many", "status 429 with Retry-After: the same bytes again, and not before that", busy(429, "rate-limited"), 2 * time.Second},
		{"outcome/unavailable", "status 503 with Retry-After: the same bytes again, and not before that", busy(503, "not-ready"), 2 * time.Second},
	} {
		ids := []string{"REG-2c"}
		if c.name == "outcome/forged-receipt" {
			ids = []string{"LOG-4", "REG-2c"}
		}
		cases = append(cases, agentCase{name: c.name, ids: ids, about: c.about, play: func(p *play) {
			p.charged()
			p.authorized(nil)
			p.answersOnce(isOutcome, c.with)
			p.start()
			p.does("compensate", charge)
			p.sentTwice(isOutcome, c.pause)
			p.outcome(charge, entry.Compensated)
			p.outcomes(1)
		}})
	}
	return cases
}

// answersOnce answers the first submission of an entry in another way.
func (p *play) answersOnce(which func(*entry.Entry) bool, with func(w http.ResponseWriter, r *http.Request, honest http.Handler)) {
	var first atomic.Bool
	p.submits(func(w http.ResponseWriter, r *http.Request, e *entry.Entry, honest http.Handler) bool {
		if !which(e) || !first.CompareAndSwap(false, true) {
			return false
		}
		with(w, r, honest)
		return true
	})
}

// sentTwice sees that an entry is sent a second time, not before a pause.
func (p *play) sentTwice(which func(*entry.Entry) bool, pause time.Duration) {
	var at []time.Time
	var same []*entry.Entry
	sent := func() bool {
		at, same = nil, nil
		list, times := p.submitted()
		for i, e := range list {
			if which(e) {
				at, same = append(at, times[i]), append(same, e)
			}
		}
		return len(at) > 1
	}
	p.until("the same bytes again (REG-2c)", sent)
	if p.err == nil && !bytes.Equal(same[0].PAE(), same[1].PAE()) {
		p.fail("the same bytes again (REG-2c)", "%s, then %s", same[0].Payload(), same[1].Payload())
	}
	const slack = 100 * time.Millisecond // the agent counts from the answer, the kit from the question
	if p.err == nil && at[1].Sub(at[0]) < pause-slack {
		p.fail("again after "+pause.String()+", as Retry-After says", "again after %s", at[1].Sub(at[0]))
	}
}
