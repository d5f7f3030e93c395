//go:build unix

package agent_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/needs"
)

// TestRecipes calls the program of docs/tutorial.md, and the recipe for Node, for every
// hook that they have, with the interpreters of this machine.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tutorial.md")
	must(t, err)
	_, text, found := strings.Cut(string(page), "```python file=undo.py\n")
	text, _, _ = strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/tutorial.md shows no undo.py")
	}
	tutorial := filepath.Join(t.TempDir(), "undo.py")
	must(t, os.WriteFile(tutorial, []byte(text), 0o600))
	for name, recipe := range map[string]struct{ pkg, file string }{"python3": {"python3", tutorial}, "node": {"nodejs", "../../../testdata/recipes/undo.mjs"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := needs.Program(t, name, recipe.pkg, "the recipe is not run")
			work := t.TempDir()
			for _, dir := range []string{"checkpoints", "orders", "cancelled"} {
				must(t, os.Mkdir(filepath.Join(work, dir), 0o700))
			}
			must(t, os.WriteFile(filepath.Join(work, "orders", "x.json"), []byte("{}"), 0o600))
			must(t, os.WriteFile(filepath.Join(work, "checkpoints", "c0.json"), []byte(`{"good":true}`), 0o600))
			must(t, os.WriteFile(filepath.Join(work, "state.json"), []byte(`{"good":false}`), 0o600))
			sum := sha256.Sum256([]byte(`{"good":true}`))
			p := &agent.Program{Argv: []string{path, recipe.file, work}}
			call := agent.Call{V: 1, Agent: "worker", Members: []agent.CallMember{{Exec: "worker#x"}}, Checkpoint: "worker#c0", Standing: []entry.Ref{"worker#y"},
				Digest: entry.DigestFrom(sum[:]), Key: strings.Repeat("a", 64), Keys: []string{strings.Repeat("a", 64)}}
			ask := func(hook, of agent.Hook) *agent.Report {
				c := call
				c.Hook, c.Of = hook, of
				report, err := p.Run(t.Context(), &c)
				must(t, err)
				return report
			}
			for _, hook := range []agent.Hook{agent.Restore, agent.Compensate} {
				if r := ask(agent.Probe, hook); r.Status != agent.NoEffect {
					t.Errorf("before %s: %+v", hook, r)
				}
				done := ask(hook, "")
				if r := ask(agent.Probe, hook); done.Status != agent.Done || r.Status != agent.Done || hook == agent.Restore && (r.Digest != call.Digest || done.Digest != call.Digest) {
					t.Errorf("%s: %+v, then %+v", hook, done, r)
				}
			}
			if stands, err := os.ReadFile(filepath.Join(work, "standing.json")); err != nil || string(stands) != `["worker#y"]` {
				t.Errorf("what stands: %s, %v", stands, err)
			}
			call.Standing = []entry.Ref{"worker#y", "worker#z"} // not what was loaded
			if r := ask(agent.Probe, agent.Restore); r.Status != agent.NoEffect {
				t.Errorf("something else stands: %+v", r)
			}
			if left, err := os.ReadDir(filepath.Join(work, "orders")); err != nil || len(left) > 0 {
				t.Errorf("orders that stand: %v, %v", left, err)
			}
			if name == "node" { // the other one has no such hooks
				if a, b := ask(agent.Drain, ""), ask(agent.Cancel, ""); a.Status != agent.Done || b.Status != agent.Done {
					t.Errorf("%+v, %+v", a, b)
				}
			}
			call.Checkpoint = "worker#gone"
			if r := ask(agent.Restore, ""); r.Status != agent.Failed || r.Residual == "" {
				t.Errorf("without the checkpoint: %+v", r)
			}
		})
	}
}

// TestProgramMisbehaves: whatever a program does but report, it is an error, with
// its exit code.
func TestProgramMisbehaves(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		exit   int
		report bool
	}{
		"nothing":        {"true", 0, true},
		"not JSON":       {"echo done", 0, true},
		"two reports":    {`echo '{"status":"done"}{"status":"done"}'`, 0, true},
		"twice the same": {`echo '{"status":"failed","status":"done"}'`, 0, true},
		"more members":   {`echo '{"status":"done","sure":true}'`, 0, true},
		"too much":       {`echo '{"status":"done"}'; yes ''`, -1, true}, // is ended then, not when its time is over
		"exit code":      {`echo '{"status":"done"}'; exit 3`, 3, false},
		"killed":         {`kill -9 $$`, -1, false},
		"for ever":       {"sleep 100", -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &agent.Program{Argv: []string{"sh", "-c", c.script}}
			if name == "for ever" {
				p.Limit = 50 * time.Millisecond
			}
			_, err := p.Run(t.Context(), &agent.Call{V: 1, Hook: agent.Drain})
			failed, ok := errors.AsType[*agent.ProgramError](err)
			if !ok || failed.Exit != c.exit || errors.Is(err, agent.ErrReport) != c.report || !strings.Contains(err.Error(), "drain") {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := (&agent.Program{Argv: []string{"/no/such/program"}}).Run(t.Context(), &agent.Call{}); !errors.Is(err, agent.ErrNotBegun) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestProgramSaysWhoEndedIt: a program that is killed because its agent stops is
// told apart from one whose time is over, and neither has an exit code.
func TestProgramSaysWhoEndedIt(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	go func() {
		if f, err := os.Open(ready); err == nil { // opens when the program runs
			_ = f.Close()
		}
		interrupt()
	}()
	p := &agent.Program{Argv: []string{"sh", "-c", "echo > " + ready + "; sleep 100"}}
	_, err := p.Run(interrupted, &agent.Call{V: 1, Hook: agent.Compensate})
	if err == nil || !strings.Contains(err.Error(), "killed because the agent stopped") || strings.Contains(err.Error(), "exit code -1") || strings.Contains(err.Error(), "10m") ||
		strings.Contains(err.Error(), "must print") {
		t.Errorf("interrupted: %v", err)
	}
	p = &agent.Program{Argv: []string{"sleep", "100"}, Limit: 50 * time.Millisecond}
	if _, err = p.Run(t.Context(), &agent.Call{V: 1, Hook: agent.Compensate}); err == nil || !strings.Contains(err.Error(), "killed after 50ms, its time limit") {
		t.Errorf("too long: %v", err)
	}
}

// TestNotBegun: a hook that could not begin is begun again, with the same key, as
// long as the decision stands; then the agent says that it was not started.
func TestNotBegun(t *testing.T) {
	d := newDamage(t).ahead()
	for _, times := range []int{20, 1 << 30} {
		b := d.clone()
		worker, keys, left := d.player(b, "worker", bare), map[string]bool{}, times
		worker.change = func(c *agent.Config) {
			begins := func(f agent.Func) agent.Func {
				return func(ctx context.Context, c *agent.Call) (*agent.Report, error) {
					if keys[c.Key] = true; left > 0 {
						left--
						return nil, agent.ErrNotBegun
					}
					return f(ctx, c)
				}
			}
			c.Hooks.Restore, c.Hooks.Compensate, c.Hooks.Cancel = begins(c.Hooks.Restore), begins(c.Hooks.Compensate), begins(c.Hooks.Cancel)
		}
		worker.open()
		want := restoredAll()
		if times > 20 {
			play(t, b, b.now+1000, nil, worker)
			view, _ := b.state.Incident(d.incident, b.now)
			play(t, b, view.Decision.ExpiresAt+1000, nil, worker)
			for exec := range want {
				if exec != "writer#page" {
					want[exec] = entry.Withheld
				}
			}
		} else {
			play(t, b, b.now+3_600_000, nil, worker)
		}
		d.ends(t, b, want, worker)
		if len(keys) != 2 || left == 0 == (times > 20) { // one, and none
			t.Errorf("keys %v, %d times left", keys, left)
		}
	}
}

// TestProgramLeavesNothing: what a program has started ends with it where it did
// not report, before Probe looks. It holds a pipe as long as it runs.
func TestProgramLeavesNothing(t *testing.T) {
	for name, script := range map[string]string{
		"for ever":  "sleep 100 & wait",
		"exit code": "sleep 100 >/dev/null 2>&1 & exit 3",
		"no report": "sleep 100 >/dev/null 2>&1 & echo done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left, held, err := os.Pipe()
			must(t, err)
			p := &agent.Program{Argv: []string{"sh", "-c", script}, Limit: 5 * time.Second, Held: held}
			if name == "for ever" {
				p.Limit = 50 * time.Millisecond
			}
			if _, err := p.Run(t.Context(), &agent.Call{V: 1, Hook: agent.Drain}); err == nil {
				t.Error("no error")
			}
			must(t, errors.Join(held.Close(), left.SetReadDeadline(time.Now().Add(10*time.Second))))
			if _, err := left.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("something of it still runs: %v", err)
			}
			must(t, left.Close())
		})
	}
}

// TestBadReports: a report that is none never counts as done; what was started is
// reconciled.
func TestBadReports(t *testing.T) {
	d := newDamage(t)
	for name, r := range map[string]*agent.Report{
		"none": nil, "no status": {}, "another status": {Status: "ok"}, "failed and nothing left": {Status: agent.Failed},
		"long residual": {Status: agent.Failed, Residual: strings.Repeat("x", entry.MaxText+1)}, "no digest": {Status: agent.Done},
		"a digest of failure": {Status: agent.Failed, Residual: "x", Digest: zero}, "progress": {Status: agent.Done, Digest: zero, Progress: entry.Confirmed},
		"much evidence": {Status: agent.Done, Digest: zero, Evidence: make([]entry.Evidence, agent.MaxEvidence+1)},
	} {
		b := d.clone()
		worker, writer := d.player(b, "worker", bare), d.player(b, "writer", probing)
		worker.change = func(c *agent.Config) {
			c.Hooks.Restore = func(context.Context, *agent.Call) (*agent.Report, error) { return r, nil }
		}
		worker.open()
		play(t, b, b.now+100_000, nil, worker, writer)
		if got := b.results(d.incident)["worker#draft"]; got != entry.ResultUnknown {
			t.Errorf("%s: %q", name, got)
		}
	}
	b := d.clone()
	worker, writer := d.player(b, "worker", bare), d.player(b, "writer", probing)
	worker.change = func(c *agent.Config) {
		c.Hooks.Restore = func(context.Context, *agent.Call) (*agent.Report, error) {
			return &agent.Report{Status: agent.Done, Digest: entry.Digest("sha256:" + strings.Repeat("1", 64)), Evidence: make([]entry.Evidence, 0, 1)}, nil
		}
	}
	worker.open()
	d.ends(t, b, map[entry.Ref]entry.Result{"worker#draft": entry.ResultFailed}, worker, writer)
}

// TestProbeNotBegun: what became of something is found out when Probe, or what may
// run again, can begin, as long as the decision stands.
func TestProbeNotBegun(t *testing.T) {
	d := newDamage(t).ahead()
	for _, k := range []kit{probing, idempotent} {
		b := d.clone()
		worker, crashed, left := d.player(b, "worker", k), false, 20
		worker.change = func(c *agent.Config) {
			restore := c.Hooks.Restore
			c.Hooks.Restore = func(ctx context.Context, c *agent.Call) (*agent.Report, error) {
				switch {
				case !crashed:
					crashed = true
					_, _ = restore(ctx, c)
					return nil, errCrash
				case left > 0:
					left--
					return nil, agent.ErrNotBegun
				}
				return restore(ctx, c)
			}
			if probe := c.Hooks.Probe; probe != nil {
				c.Hooks.Probe = func(ctx context.Context, c *agent.Call) (*agent.Report, error) {
					if left > 0 {
						left--
						return nil, agent.ErrNotBegun
					}
					return probe(ctx, c)
				}
			}
		}
		worker.open()
		play(t, b, b.now+1_800_000, nil, worker)
		if got := b.results(d.incident)["worker#draft"]; got != entry.Restored || worker.world.effects["restore worker#c0"] != 1 {
			t.Errorf("%s: %q; %v; refused %v", k, got, worker, b.refused)
		}
	}
}

// TestTriedAgainSoon: what had no effect is tried again after its pause, whatever
// else there is to wait for.
func TestTriedAgainSoon(t *testing.T) {
	d := newDamage(t).ahead()
	b := d.clone()
	worker, failed := d.player(b, "worker", bare), false
	worker.change = func(c *agent.Config) {
		restore := c.Hooks.Restore
		c.Hooks.Restore = func(ctx context.Context, c *agent.Call) (*agent.Report, error) {
			if !failed {
				failed = true
				return &agent.Report{Status: agent.NoEffect}, nil
			}
			return restore(ctx, c)
		}
	}
	worker.open()
	play(t, b, b.now+2000, nil, worker)
	if got := b.results(d.incident)["worker#draft"]; got != entry.Restored {
		t.Errorf("two seconds later the draft is %q", got)
	}
}
