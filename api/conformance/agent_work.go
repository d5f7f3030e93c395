package conformance

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// submittedIn is the entry that a request submits, if the request submits one.
func submittedIn(r *http.Request) *entry.Entry {
	if r.Method != http.MethodPost || r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	e, err := entry.Decode(bytes.TrimSpace(body))
	if err != nil {
		return nil
	}
	return e
}

// forgedReceipt is a receipt whose proof is one hash off.
func forgedReceipt(data []byte) []byte {
	receipt, err := verify.DecodeReceipt(data)
	if err != nil || len(receipt.Proof) == 0 {
		return data
	}
	receipt.Proof[0][0] ^= 1
	if forged, err := receipt.Encode(); err == nil {
		return forged
	}
	return data
}

// A Task is what the kit asks an agent to do: one line on standard input.
type Task struct {
	Exec    string           `json:"exec"` // local id of the execution
	Wid     entry.WorkflowID `json:"wid"`
	Effect  entry.Effect     `json:"effect"`
	Parents []entry.Parent   `json:"parents"`
}

// does1 is the execution that the agent is asked to carry out.
const does1 entry.Ref = "worker#task"

// asks gives the agent a task.
func (p *play) asks(parents ...entry.Ref) {
	if p.err != nil {
		return
	}
	_, id := stage.Owner(does1)
	t := Task{Exec: id, Wid: stage.Workflow, Effect: entry.EffectCompensable, Parents: []entry.Parent{}}
	for _, parent := range parents {
		t.Parents = append(t.Parents, entry.Parent{Exec: parent, Dep: entry.Hard})
	}
	line, err := json.Marshal(t, json.Deterministic(true))
	p.must(err)
	if _, err := p.process.steps.Write(append(line, '\n')); err != nil {
		p.fail("the agent reads its tasks from standard input", "%v", err)
	}
}

// progress waits until the execution has come so far.
func (p *play) progress(want entry.Progress) {
	p.until("an entry: "+string(does1)+" "+string(want), func() bool { return slices.Contains(p.progresses(), want) })
}

func (p *play) progresses() (list []entry.Progress) {
	for _, e := range p.entries() {
		if x, is := e.Body.(*entry.Execution); is && x.Ref() == does1 {
			list = append(list, x.Progress)
		}
	}
	return list
}

// workCases are those in which the agent works.
func workCases() []agentCase {
	return []agentCase{
		{name: "work/logged", ids: []string{"EXE-2", "EXE-1", "EXE-5"}, about: "a task with a parent: started in the log, then the effect, then confirmed, all alike", play: func(p *play) {
			p.did(read, entry.EffectNone)
			p.start()
			p.asks(read)
			p.progress(entry.Confirmed)
			p.does("run", does1)
			p.alike(read)
		}},
		{name: "work/held", ids: []string{"EXE-2"}, about: "the ledger does not answer the start at once: no effect before the receipt", play: func(p *play) {
			release := make(chan struct{})
			p.answersOnce(isStarted, func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
				select {
				case <-release:
					stage.Honest(honest, r).Send(w)
				case <-r.Context().Done():
				}
			})
			p.start()
			p.asks()
			p.sends(isStarted)
			p.unmoved()
			close(release)
			p.does("run", does1)
			p.progress(entry.Confirmed)
		}},
		{name: "work/lost-answer", ids: []string{"REG-2c", "LOG-4"}, about: "the log has the start, and the answer is lost: the same bytes again, one effect", play: func(p *play) {
			p.answersOnce(isStarted, func(w http.ResponseWriter, r *http.Request, honest http.Handler) {
				stage.Honest(honest, r)
				panic(http.ErrAbortHandler)
			})
			p.start()
			p.asks()
			p.sentTwice(isStarted, 0)
			p.does("run", does1)
			p.progress(entry.Confirmed)
		}},
		{name: "work/too-many", ids: []string{"REG-2c"}, about: "status 429 with Retry-After for the start: again, and not before that", play: func(p *play) {
			p.answersOnce(isStarted, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(`{"type":"urn:agent-recovery:problem:rate-limited","title":"later","status":429,"retry_after_ms":1000}`))
			})
			p.start()
			p.asks()
			p.sentTwice(isStarted, time.Second)
			p.does("run", does1)
		}},
	}
}

// distrustCases are those in which the agent must not act, or must say that it failed.
func distrustCases() []agentCase {
	return []agentCase{
		{name: "work/refused", ids: []string{"EXE-2", "LOG-4"}, about: "the ledger refuses the start: no effect", play: func(p *play) {
			p.start()
			p.asks("source#nowhere")
			p.sends(isStarted)
			p.unmoved()
		}},
		{name: "work/forged-receipt", ids: []string{"LOG-4", "EXE-2"}, about: "a receipt of the start whose proof does not hold, each time: no effect", play: func(p *play) {
			p.did(read, entry.EffectNone)
			p.submits(func(w http.ResponseWriter, r *http.Request, e *entry.Entry, honest http.Handler) bool {
				answer := stage.Honest(honest, r)
				answer.Body = forgedReceipt(answer.Body)
				answer.Send(w)
				return true
			})
			p.start()
			p.asks(read)
			p.sends(isStarted)
			p.unmoved()
		}},
		{name: "work/other-receipt", ids: []string{"LOG-4", "EXE-2"}, about: "a good receipt of another entry in the place of that of the start: no effect", play: func(p *play) {
			p.submits(func(w http.ResponseWriter, _ *http.Request, _ *entry.Entry, _ http.Handler) bool {
				r, err := http.NewRequestWithContext(noContext, http.MethodGet, "/v1/entries/3/receipt", http.NoBody)
				if err == nil {
					p.stage.Ask(r).Send(w)
				}
				return true
			})
			p.start()
			p.asks()
			p.sends(isStarted)
			p.unmoved()
		}},
		{name: "work/fenced", ids: []string{"INC-4a", "INC-4c"}, about: "the parent is fenced: the start is refused, and there is no effect", play: func(p *play) {
			p.did(page, entry.EffectCompensable)
			p.fails(page)
			p.authorized(nil)
			p.start()
			p.asks(page)
			p.sends(isStarted)
			p.unmoved()
		}},
		{name: "work/fails", ids: []string{"SIG-1a", "EXE-1"}, about: "the task fails: the agent logs that, and signals", play: func(p *play) {
			p.world.fails["run"] = true
			p.start()
			p.asks()
			p.progress(entry.Failed)
			p.until("a failure signal of the executor", func() bool {
				return slices.ContainsFunc(p.entries(), func(e *entry.Registered) bool {
					s, is := e.Body.(*entry.Signal)
					return is && s.Subject == does1 && s.Standing == entry.StandingExecutor
				})
			})
		}},
		{name: "work/undone", ids: []string{"AGT-0", "EXE-2"}, about: "what the agent did is undone on proof", play: func(p *play) {
			p.start()
			p.asks()
			p.progress(entry.Confirmed)
			p.fails(does1)
			p.authorized(nil)
			p.does("compensate", does1)
			p.outcome(does1, entry.Compensated)
		}},
	}
}

// sends waits until the agent has sent an entry.
func (p *play) sends(which func(*entry.Entry) bool) {
	p.until("the agent sends the start of its execution", func() bool {
		list, _ := p.submitted()
		return slices.ContainsFunc(list, which)
	})
}

// unmoved sees that the agent has no effect for a while.
func (p *play) unmoved() {
	if p.err != nil {
		return
	}
	if p.stage.Until(p.over, cmp.Or(p.kit.Settle, settleDefault), func() bool { return p.world.times("run", does1) > 0 }) {
		p.fail("no effect without a receipt of the start (EXE-2)", "run of %s", does1)
	}
}

// alike sees that all entries of the execution have the same parents, effect and key.
func (p *play) alike(parents ...entry.Ref) {
	if p.err != nil {
		return
	}
	var first *entry.Execution
	for _, e := range p.entries() {
		x, is := e.Body.(*entry.Execution)
		if !is || x.Ref() != does1 {
			continue
		}
		if first == nil {
			first = x
		}
		named := []entry.Ref{}
		for _, parent := range x.Parents {
			named = append(named, parent.Exec)
		}
		if !slices.Equal(named, parents) || x.Effect != entry.EffectCompensable || x.IdempotencyKey != first.IdempotencyKey {
			p.fail("the same parents, effect and idempotency key in each entry (EXE-1)", "%+v", x)
		}
	}
}
