package simulation

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// machine is what an agent works with: the state of its lines, which reversible
// executions change, and the world outside, in which the others have their
// effects. It outlives every crash.
type machine struct {
	n      *node
	lines  map[entry.WorkflowID]*line
	jobs   map[entry.Ref]*job
	done   map[string]*agent.Report // calls that had their effect
	undone map[string]int           // effective undos, by member and checkpoint
	did    map[string]bool          // whether there was any, by member
	turn   int
}

// line is the state of one line, and what was saved of it.
type line struct {
	state []entry.Ref // the reversible executions in it
	saved map[entry.Ref]restorePoint
}

type restorePoint struct {
	state  []entry.Ref
	digest entry.Digest
}

func stateDigest(state []entry.Ref) entry.Digest { return digest(fmt.Sprint(state)) }

// job is an execution on its way.
type job struct {
	x       *entry.Execution // as it was declared
	sent    entry.Progress   // what the log is known to have
	acted   bool             // it had its effect
	stopped bool             // it was drained or cancelled: it goes no further
	final   entry.Progress   // how it ends
	hangs   bool             // it does not end by itself
	tries   int
	over    bool // nothing is to be logged any more
}

// lineOf returns the line that a workflow's executions are on.
func (m *machine) lineOf(wid entry.WorkflowID) *line {
	if m.n.w.observer.spans[m.n.name] {
		wid = ""
	}
	l := m.lines[wid]
	if l == nil {
		l = &line{saved: map[entry.Ref]restorePoint{}}
		m.lines[wid] = l
	}
	return l
}

func (n *node) busy() bool {
	for _, j := range n.machine.jobs {
		if !j.over && !j.stopped && !j.hangs {
			return true
		}
	}
	return false
}

// act has the effect of an execution.
func (m *machine) act(j *job) {
	j.acted = true
	if j.x.Effect == entry.EffectReversible && j.final == entry.Confirmed {
		l := m.lineOf(j.x.Wid)
		l.state = append(l.state, j.x.Ref())
	}
}

// hooks are those of the agent.
func (m *machine) hooks() agent.Hooks {
	h := agent.Hooks{Drain: m.hook(m.drain), Restore: m.hook(m.restore), Compensate: m.hook(m.compensate), Cancel: m.hook(m.cancel),
		Idempotent: []agent.Hook{agent.Drain, agent.Cancel}}
	if m.n.w.plan.probe {
		h.Probe = m.probe
	}
	if m.n.w.plan.idempotent {
		h.Idempotent = append(h.Idempotent, agent.Restore, agent.Compensate)
	}
	return h
}

// callKeys name what a call does: of a restore, each member of it.
func callKeys(c *agent.Call) (keys []string) {
	hook := c.Hook
	if c.Of != "" {
		hook = c.Of
	}
	if hook == agent.Compensate {
		return []string{"compensate " + c.Key}
	}
	for i := range c.Members {
		keys = append(keys, fmt.Sprintf("%s %d %s %s", hook, c.Incident, c.Members[i].Exec, c.Checkpoint))
	}
	return keys
}

// happened returns the report on a call that had its effect; some says that a
// part of it had.
func (m *machine) happened(keys []string) (report *agent.Report, some bool) {
	all := true
	for _, key := range keys {
		if done := m.done[key]; done != nil {
			report, some = done, true
		} else {
			all = false
		}
	}
	if !all {
		return nil, some
	}
	return report, some
}

// hook makes a hook of what it does: it may crash before and after, and does the
// same call once if it is idempotent.
func (m *machine) hook(do func(c *agent.Call) *agent.Report) agent.Func {
	return func(_ context.Context, c *agent.Call) (*agent.Report, error) {
		n, w := m.n, m.n.w
		if n.crashed {
			return nil, errCrashed
		}
		w.note("  %s runs %s of %s", n.name, c.Hook, c.Members[0].Exec)
		w.observer.hook(n, c)
		if w.fault(w.plan.crash) {
			n.crashed = true
			return nil, errCrashed
		}
		if n.rogue && w.chance(300) && (c.Hook == agent.Restore || c.Hook == agent.Compensate) { // it says what it has not done
			return &agent.Report{Status: agent.Done, Digest: restoredDigest(c)}, nil
		}
		report := m.once(c, do)
		if w.fault(w.plan.crash) {
			n.crashed = true
			return nil, errCrashed
		}
		if w.fault(w.plan.crash) {
			return nil, errLost
		}
		return report, nil
	}
}

func restoredDigest(c *agent.Call) entry.Digest {
	if c.Hook == agent.Restore {
		return c.Digest
	}
	return ""
}

func (m *machine) once(c *agent.Call, do func(c *agent.Call) *agent.Report) *agent.Report {
	keys := callKeys(c)
	known, _ := m.happened(keys)
	repeatable := c.Hook == agent.Drain || c.Hook == agent.Cancel || m.n.w.plan.idempotent
	if known != nil && repeatable {
		return known
	}
	report := do(c)
	if report.Status != agent.NoEffect {
		for _, key := range keys {
			m.done[key] = report
		}
	}
	return report
}

// undoKey names the undo of a member; one that is taken further back is another.
// Compensations are not told apart by incident: the idempotency key depends on the
// execution alone (EXE-4), so that what an earlier incident has done and nobody
// heard of is done, and is not to be done again.
func undoKey(incident uint64, exec, checkpoint entry.Ref, method entry.Method) string {
	if method == entry.MethodCompensate {
		incident = 0
	}
	return fmt.Sprintf("%d %s %s", incident, exec, checkpoint)
}

// effective counts what was undone.
func (m *machine) effective(c *agent.Call) {
	for i := range c.Members {
		one := &c.Members[i]
		key := undoKey(c.Incident, one.Exec, c.Checkpoint, one.Method)
		m.did[undoKey(c.Incident, one.Exec, "", one.Method)] = true
		if m.undone[key]++; m.undone[key] > 1 {
			m.n.w.fail("%s undid %s %d times", m.n.name, key, m.undone[key])
		}
	}
}

// again counts of an undo that changes nothing what was not undone before: where
// the disk was lost between, nobody knows which members of a line the restore
// had that took it back.
func (m *machine) again(c *agent.Call) {
	call := *c
	call.Members = slices.DeleteFunc(slices.Clone(c.Members), func(member agent.CallMember) bool {
		return m.undone[undoKey(c.Incident, member.Exec, c.Checkpoint, member.Method)] > 0
	})
	m.effective(&call)
}

func (m *machine) drain(c *agent.Call) *agent.Report {
	ref := c.Members[0].Exec
	j := m.jobs[ref]
	if x := m.n.w.observer.execs[ref]; j == nil || j.over && x.final != 0 {
		return &agent.Report{Status: agent.Done}
	}
	// What was given up because it was refused may be in the log by a copy that
	// came late: it has not ended there.
	if j.stopped = true; !j.acted {
		j.final = entry.Cancelled
	}
	return &agent.Report{Status: agent.Done, Progress: j.final}
}

// TestDrainEndsWhatWasGivenUp drains an execution whose entry was refused until
// its agent gave it up, and that the log has all the same.
func TestDrainEndsWhatWasGivenUp(t *testing.T) {
	w := &world{}
	w.observer = newObserver(w)
	x := &entry.Execution{Header: entry.Header{Iss: "a"}, Exec: "x", Effect: entry.EffectReversible}
	logged := &record{ref: x.Ref(), started: 7}
	w.observer.execs[x.Ref()] = logged
	m := &machine{n: &node{w: w}, jobs: map[entry.Ref]*job{x.Ref(): {x: x, final: entry.Confirmed, over: true}}}
	call := &agent.Call{Members: []agent.CallMember{{Exec: x.Ref()}}}
	if r := m.drain(call); r.Progress != entry.Cancelled {
		t.Errorf("progress %q, want cancelled: the log has no end of it", r.Progress)
	}
	if logged.final = 9; m.drain(call).Progress != "" {
		t.Error("it is ended again")
	}
}

// TestLineIsRestoredTwice runs a restore again that has a member more. That is
// the same as once only where the line has not changed in between, and where the
// hook may run twice at all.
func TestLineIsRestoredTwice(t *testing.T) {
	undoes := func(idempotent bool, between ...entry.Ref) (err any) {
		defer func() { err = recover() }()
		w := &world{plan: scenario{idempotent: idempotent}}
		w.observer = newObserver(w)
		m := &machine{n: &node{w: w}, lines: map[entry.WorkflowID]*line{}, undone: map[string]int{}, did: map[string]bool{}}
		l := m.lineOf("w")
		l.state, l.saved["a#c"] = []entry.Ref{"a#x", "a#y"}, restorePoint{[]entry.Ref{"a#x"}, "digest"}
		call := &agent.Call{Checkpoint: "a#c", Members: []agent.CallMember{{Exec: "a#y", Wid: "w"}}}
		m.restore(call)
		l.state = append(l.state, between...)
		call.Members = append(call.Members, agent.CallMember{Exec: "a#z", Wid: "w"})
		if r := m.restore(call); r.Digest != "digest" || len(l.state) != 1 || len(m.undone) != 2 {
			t.Errorf("%+v, %v, %v", r, l.state, m.undone)
		}
		return nil
	}
	if err := undoes(true); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
	if undoes(true, "a#z") == nil || undoes(false) == nil {
		t.Error("what is undone twice is not seen")
	}
}

func (m *machine) cancel(c *agent.Call) *agent.Report {
	if j := m.jobs[c.Members[0].Exec]; j != nil {
		if j.acted && j.x.Effect != entry.EffectNone {
			m.n.w.fail("%s is to cancel %s, which it has done", m.n.name, c.Members[0].Exec)
		}
		j.stopped = true
	}
	return &agent.Report{Status: agent.Done}
}

func (m *machine) restore(c *agent.Call) *agent.Report {
	l := m.lineOf(c.Members[0].Wid)
	point, ok := l.saved[c.Checkpoint]
	if !ok {
		m.n.w.fail("%s is to restore %s, which it never saved", m.n.name, c.Checkpoint)
	}
	if m.n.w.fault(50) {
		return &agent.Report{Status: agent.NoEffect}
	}
	if !m.n.w.plan.idempotent || !slices.Equal(l.state, point.state) {
		m.effective(c)
	} else {
		m.again(c)
	}
	l.state = slices.Clone(point.state)
	return &agent.Report{Status: agent.Done, Digest: point.digest}
}

func (m *machine) compensate(c *agent.Call) *agent.Report {
	w := m.n.w
	if w.fault(80) {
		return &agent.Report{Status: agent.NoEffect}
	}
	m.effective(c)
	if !w.fault(60) {
		return &agent.Report{Status: agent.Done}
	}
	return pick(w, []*agent.Report{{Status: agent.Failed, Residual: "half of it is left"}, {Status: agent.Unknown}})
}

// probe tells what became of a call.
func (m *machine) probe(_ context.Context, c *agent.Call) (*agent.Report, error) {
	if m.n.crashed || m.n.w.fault(m.n.w.plan.crash) {
		m.n.crashed = m.n.crashed || m.n.w.chance(500)
		return nil, errCrashed
	}
	if m.n.w.fault(50) {
		return nil, errLost
	}
	if c.Of == agent.Compensate {
		for _, key := range c.Keys {
			if done := m.done["compensate "+key]; done != nil {
				return done, nil
			}
		}
		return &agent.Report{Status: agent.NoEffect}, nil
	}
	done, some := m.happened(callKeys(c))
	switch {
	case done != nil:
		return done, nil
	case some || c.Of == agent.Drain:
		return &agent.Report{Status: agent.Unknown}, nil
	}
	return &agent.Report{Status: agent.NoEffect}, nil
}
