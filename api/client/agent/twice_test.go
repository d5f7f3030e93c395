package agent_test

import (
	"slices"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// TestCompensatedByTwoIncidents has an agent compensate in one incident, of which
// the log does not hear that it was done, and another one want the same: a
// compensation is one, across decisions (EXE-4). A hook that may not run twice does
// not, and what is known to be done is said to be.
// Draft: EXE-4b.
func TestCompensatedByTwoIncidents(t *testing.T) {
	for name, c := range map[string]struct {
		kit     kit
		says    agent.Status // the first time
		cut     bool         // the first time nobody hears of it
		want    entry.Result
		calls   int
		effects int
	}{
		"done, bare":                 {bare, agent.Done, true, entry.Compensated, 1, 1},
		"done, probing":              {probing, agent.Done, true, entry.Compensated, 1, 1},
		"done, idempotent":           {idempotent, agent.Done, true, entry.Compensated, 1, 1},
		"unknown":                    {bare, agent.Unknown, false, entry.ResultUnknown, 1, 0},
		"unknown, and may run again": {idempotent, agent.Unknown, false, entry.Compensated, 2, 1},
		"failed":                     {bare, agent.Failed, false, entry.ResultFailed, 1, 0},
		"failed, and may run again":  {idempotent, agent.Failed, false, entry.Compensated, 2, 1},
		"failed, and Probe says that it had no effect": {probing, agent.Failed, false, entry.Compensated, 2, 1},
		"no effect": {bare, agent.NoEffect, false, entry.Compensated, 4, 1}, // three times in vain
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			worker := b.player("worker", c.kit)
			play(t, b, b.now+1, nil, worker)
			b.did("worker#charge", entry.EffectCompensable)
			first := b.signal("worker#charge")
			worker.world.says[agent.Compensate] = c.says
			blocked := false
			worker.desk.fault = func(string) error {
				if blocked {
					return errLost
				}
				return nil
			}
			worker.world.fault = func(call string) error {
				blocked = blocked || c.cut && call == "hook!" && worker.world.effects["compensate worker#charge"] > 0
				return nil
			}
			play(t, b, b.now+30_000, nil, worker)
			view, _ := b.state.Incident(first, b.now)
			if view.State.Open() {
				play(t, b, view.Decision.ExpiresAt+7_200_000, nil, worker)
			}
			if got := b.results(first)["worker#charge"]; got == entry.Compensated || got == "" {
				t.Fatalf("the first time: %q, refused %v", got, b.refused)
			}
			second := b.signalAgain("worker#charge", first)
			b.coordinate()
			blocked, worker.world.fault = false, nil
			delete(worker.world.says, agent.Compensate)
			play(t, b, b.now+200_000, nil, worker)
			if got := b.results(second)["worker#charge"]; got != c.want {
				t.Errorf("%q, want %q; refused %v", got, c.want, b.refused)
			}
			calls := slices.DeleteFunc(slices.Clone(worker.world.calls), func(call string) bool { return call != "compensate worker#charge" })
			if len(calls) != c.calls || worker.world.effects["compensate worker#charge"] != c.effects {
				t.Errorf("%d calls, want %d; %d effects, want %d", len(calls), c.calls, worker.world.effects["compensate worker#charge"], c.effects)
			}
			if !worker.agent.Idle() {
				t.Errorf("it has not come to an end: %v", b.refused)
			}
		})
	}
}

// TestCompensatedByWhoKnows has a second incident want a compensation while it is
// still to be found out what became of that of the first, which began anew after an
// attempt without effect: the second is about that attempt, not the next.
func TestCompensatedByWhoKnows(t *testing.T) {
	b := newBook(t)
	worker := b.player("worker", probing)
	play(t, b, b.now+1, nil, worker)
	b.did("worker#charge", entry.EffectCompensable)
	first := b.signal("worker#charge")
	crashed := false
	worker.world.says[agent.Compensate] = agent.NoEffect
	worker.world.fault = func(call string) error {
		if call == "hook!" && slices.Contains(worker.world.calls, "compensate worker#charge") {
			delete(worker.world.says, agent.Compensate) // from the second attempt on
			crashed = worker.world.effects["compensate worker#charge"] > 0
		}
		if crashed {
			return errLost
		}
		return nil
	}
	worker.desk.fault = worker.world.fault
	play(t, b, b.now+1000, nil, worker)
	if !crashed {
		t.Fatalf("there was no second attempt: %v", worker.events)
	}
	view, _ := b.state.Incident(first, b.now)
	b.now = view.Decision.ExpiresAt + 7_200_000 // it sleeps
	b.coordinate()
	b.coordinate() // unknown, and the record
	second := b.signalAgain("worker#charge", first)
	b.coordinate()
	worker.desk.fault, worker.world.fault = nil, func(call string) error {
		if call == "probe" {
			return errLost
		}
		return nil
	}
	play(t, b, b.now+2000, nil, worker)
	worker.world.fault = nil
	play(t, b, b.now+200_000, nil, worker)
	if got, effects := b.results(second)["worker#charge"], worker.world.effects["compensate worker#charge"]; got != entry.Compensated || effects != 1 {
		t.Errorf("%q, %d effects; refused %v", got, effects, b.refused)
	}
}

// TestCompensatedByLostStore loses the store in the first of two incidents: which
// attempts there were nobody knows in the second either.
// Draft: AGT-5a.
func TestCompensatedByLostStore(t *testing.T) {
	b := newBook(t)
	b.did("worker#charge", entry.EffectCompensable)
	first := b.signal("worker#charge")
	b.coordinate()
	worker := b.player("worker", idempotent)
	worker.store = newMemory()
	worker.open()
	play(t, b, b.now+200_000, nil, worker)
	second := b.signalAgain("worker#charge", first)
	play(t, b, b.now+200_000, nil, worker)
	for _, incident := range []uint64{first, second} {
		if got := b.results(incident)["worker#charge"]; got != entry.ResultUnknown {
			t.Errorf("incident %d: %q; refused %v", incident, got, b.refused)
		}
	}
	if slices.Contains(worker.world.calls, "compensate worker#charge") {
		t.Errorf("it ran: %v", worker.world.calls)
	}
}

// TestCompensatedBeforeTheLoss loses the store after an incident in which nobody
// learned what became of a compensation, and has another one want it: whether it was
// made is found out, or not known, and never made again blindly.
func TestCompensatedBeforeTheLoss(t *testing.T) {
	for name, c := range map[string]struct {
		kit   kit
		want  entry.Result
		calls int
	}{
		"bare":       {bare, entry.ResultUnknown, 1},
		"idempotent": {idempotent, entry.ResultUnknown, 1},
		"probing":    {probing, entry.Compensated, 2}, // it had no effect, says Probe
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			worker := b.player("worker", bare)
			play(t, b, b.now+1, nil, worker)
			b.did("worker#charge", entry.EffectCompensable)
			first := b.signal("worker#charge")
			worker.world.says[agent.Compensate] = agent.Unknown
			play(t, b, b.now+30_000, nil, worker)
			if got := b.results(first)["worker#charge"]; got != entry.ResultUnknown {
				t.Fatalf("the first time: %q, refused %v", got, b.refused)
			}
			delete(worker.world.says, agent.Compensate)
			worker.store, worker.kit = newMemory(), c.kit
			worker.open()
			play(t, b, b.now+30_000, nil, worker)
			second := b.signalAgain("worker#charge", first)
			b.coordinate()
			play(t, b, b.now+200_000, nil, worker)
			calls := slices.DeleteFunc(slices.Clone(worker.world.calls), func(call string) bool { return call != "compensate worker#charge" })
			if got := b.results(second)["worker#charge"]; got != c.want || len(calls) != c.calls {
				t.Errorf("%q after %d calls, want %q after %d; refused %v", got, len(calls), c.want, c.calls, b.refused)
			}
			if !worker.agent.Idle() {
				t.Errorf("it has not come to an end: %v", b.refused)
			}
		})
	}
}

// keysAfterLoss is in how many incidents an agent that has lost its store may try an
// execution's compensation in vain, and then once more: each takes two keys.
const keysAfterLoss = 15

// TestLostAgain has a compensation come to ever later keys, by incidents in which it
// had no effect and by losses of the store, until it is done and the store is lost
// once more: Probe is asked about all the keys that there may have been.
func TestLostAgain(t *testing.T) {
	for _, c := range []struct{ before, losses, after int }{{0, 0, 0}, {0, 1, 0}, {0, 1, 1}, {0, 2, 1}, {0, 4, 1}, {70, 0, 0}, {0, 1, 15}, {0, 1, 16}} { // in the last, the keys run out
		b := newBook(t)
		worker := b.player("worker", probing)
		play(t, b, b.now+1, nil, worker)
		b.did("worker#charge", entry.EffectCompensable)
		incident := b.signal("worker#charge")
		lose := func() {
			worker.store = newMemory()
			worker.open()
			play(t, b, b.now+30_000, nil, worker)
		}
		again := func() {
			incident = b.signalAgain("worker#charge", incident)
			b.coordinate()
			play(t, b, b.now+200_000, nil, worker)
		}
		worker.world.says[agent.Compensate] = agent.NoEffect
		play(t, b, b.now+200_000, nil, worker)
		for range c.before {
			again()
		}
		for range c.losses {
			again()
			lose()
			for range c.after {
				again()
			}
		}
		delete(worker.world.says, agent.Compensate)
		cut := false
		worker.world.fault = func(call string) error {
			cut = cut || call == "hook!" && worker.world.effects["compensate worker#charge"] > 0
			return nil
		}
		worker.desk.fault = func(string) error {
			if cut {
				return errLost
			}
			return nil
		}
		again()
		want, times := entry.Compensated, 1
		if c.after > keysAfterLoss {
			want, times = entry.ResultFailed, 0
		}
		if cut != (times > 0) {
			t.Errorf("%+v: done %t, refused %v", c, cut, b.refused)
		}
		worker.desk.fault, worker.world.fault = nil, nil
		lose()
		play(t, b, b.now+200_000, nil, worker)
		if got, effects := b.results(incident)["worker#charge"], worker.world.effects["compensate worker#charge"]; got != want || effects != times {
			t.Errorf("%+v: %q, done %d times; refused %v", c, got, effects, b.refused)
		}
	}
}
