package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// Step is a step of the work, as the directory of the run stores it.
type Step struct {
	Name     string         `json:"step"`
	Exec     entry.Ref      `json:"exec"`
	Run      entry.Ref      `json:"run"` // the execution that stands for the claim
	Effect   entry.Effect   `json:"effect"`
	Progress entry.Progress `json:"progress"`
	// Key is the idempotency key. One step of one task has the same key under every holder
	// of the task.
	Key string `json:"idempotency_key"`
}

// steps are the steps of a claim.
type steps []Step

// inDoubt returns the steps in doubt: steps with an effect that were begun and not ended.
func (all steps) inDoubt() (doubt steps) {
	for _, s := range all {
		if s.Effect != entry.EffectNone && s.Progress == entry.Started {
			doubt = append(doubt, s)
		}
	}
	return doubt
}

// confirmed reports whether the effects of all the steps took place.
func (all steps) confirmed() bool {
	return !slices.ContainsFunc(all, func(s Step) bool { return s.Progress != entry.Confirmed })
}

// names lists the names of the steps for people.
func (all steps) names() string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return strings.Join(names, ", ")
}

// agent returns the agent of the step.
func (s *Step) agent() entry.Principal {
	agent, _ := s.Exec.Split()
	return agent
}

// loggedSteps reads the steps of all claims of a task from the log. The name of a step is part
// of the name of its execution. The key of a step follows from its name.
func loggedSteps(ctx context.Context, c *Claim) (all steps, err error) {
	err = insist(ctx, func() (err error) { all, err = readSteps(ctx, c); return err })
	return all, err
}

func readSteps(ctx context.Context, c *Claim) (all steps, err error) {
	of := map[entry.Ref]int{}
	for e, err := range c.Client.Entries(ctx, api.ListQuery{Task: c.Task.Task, Kinds: []entry.Kind{entry.KindExecution}}) {
		if err != nil {
			return nil, err
		}
		x, ok := e.Body.(*entry.Execution)
		if !ok {
			continue
		}
		at, known := of[x.Ref()]
		if !known {
			name, ok := stepName(x)
			if !ok || len(x.Parents) != 1 {
				continue // not a step of arl work
			}
			s := Step{Name: name, Exec: x.Ref(), Run: x.Parents[0].Exec, Effect: x.Effect, Key: stepKey(c, name)}
			if s.execution(c).IdempotencyKey != x.IdempotencyKey {
				continue
			}
			at = len(all)
			of[x.Ref()], all = at, append(all, s)
		}
		all[at].Progress = x.Progress
	}
	return all, nil
}

// doneBefore finds a step with an effect that an earlier claim of the task has confirmed, if
// the effect was not undone since.
func doneBefore(ctx context.Context, c *Claim, name string) (done *Step, err error) {
	if c.Task.Epoch <= 1 {
		return nil, nil
	}
	all, err := loggedSteps(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range all {
		s := &all[i]
		if s.Name != name || s.Effect == entry.EffectNone || s.Progress != entry.Confirmed {
			continue
		}
		if undone, err := s.undone(ctx, c); err != nil || !undone {
			return s, err
		}
	}
	return nil, nil
}

// undone reports whether the newest outcome of a step says that its effect was undone.
func (s *Step) undone(ctx context.Context, c *Claim) (bool, error) {
	for e, err := range c.Client.Entries(ctx, api.ListQuery{Agent: s.agent(), Kinds: []entry.Kind{entry.KindOutcome}, Newest: true}) {
		if err != nil {
			return false, err
		}
		if o, ok := e.Body.(*entry.Outcome); ok && o.Exec == s.Exec {
			return o.Result.Undone(), nil
		}
	}
	return false, nil
}

// readRunDir reads the steps and the progress that the program declared.
func readRunDir(dir string) (all steps, p Progress, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "step-*.json"))
	for _, path := range found {
		var s Step
		if err := readJSON(path, &s); err != nil {
			return nil, p, err
		}
		all = append(all, s)
	}
	if err == nil {
		err = readJSON(progressFile(dir), &p)
	}
	if errors.Is(err, fs.ErrNotExist) {
		p, err = Progress{Status: "in_progress"}, nil
	}
	return all, p, err
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return failed(ReasonFile, "%s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = durable.Write(path, text, 0o600)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed(ReasonFile, "write %s: there is no directory %s: make the directory first", path, filepath.Dir(path))
	case err != nil:
		return &Error{ReasonFile, err}
	}
	return nil
}

// stepFile returns the path of the file that stores a step.
func stepFile(dir, name string) (string, error) {
	if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		return "", failed(ReasonInvalid, "step %.80q: want 1 to 64 letters, digits, _ . -", name)
	}
	return filepath.Join(dir, "step-"+name+".json"), nil
}

// beginStep logs a step, unless the effect of the step took place already. A step that was
// begun and not ended keeps its execution, since a second execution would leave the first in
// doubt.
func beginStep(ctx context.Context, c *Claim, dir, name string, effect entry.Effect) (*Step, error) {
	file, err := stepFile(dir, name)
	if err != nil {
		return nil, err
	}
	before := new(Step)
	forget := func() error { return writeJSON(file, before) }
	_, missing := os.Stat(file)
	switch {
	case missing == nil:
		err = readJSON(file, before)
	case effect != entry.EffectNone:
		before, err = doneBefore(ctx, c, name)
	}
	if err != nil {
		return nil, err
	}
	if missing != nil {
		forget = func() error { return os.Remove(file) }
	}
	switch {
	case before != nil && before.Effect != entry.EffectNone && before.Progress == entry.Confirmed:
		return before, writeJSON(file, before)
	case before != nil && before.Progress == entry.Started && before.Effect != effect:
		return nil, failed(ReasonInvalid, "step %s was begun with effect %s, and is not ended", name, before.Effect)
	case before != nil && before.Progress == entry.Started:
		return before, dispatchAgain(ctx, c, before)
	}
	s := &Step{name, entry.NewRef(c.Agent, name+"-"+c.NewID()), c.Exec, effect, entry.Started, stepKey(c, name)}
	// The file comes first: a step that may be in the log must be known to be in doubt.
	if err := writeJSON(file, s); err != nil {
		return nil, err
	}
	if err := c.Submit(ctx, s.execution(c)); err != nil {
		if refused(err) { // the step is not in the log, and never will be
			err = errors.Join(err, forget())
		}
		return nil, err
	}
	return s, nil
}

// refused reports whether an entry was refused for good, by the ledger or before it was sent.
func refused(err error) bool {
	problem, answered := errors.AsType[*api.Problem](err)
	_, malformed := errors.AsType[*entry.Refusal](err)
	return malformed || answered && !problem.Temporary()
}

// dispatchAgain logs a step that may be in the log already.
func dispatchAgain(ctx context.Context, c *Claim, s *Step) error {
	err := c.Submit(ctx, s.execution(c))
	if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Name() == entry.StateConflict && problem.Field == "progress" {
		return nil // the step is in the log
	}
	return err
}

// stepKey returns the idempotency key of a step of a task. It is the same under every holder.
func stepKey(c *Claim, name string) string {
	key := sha256.Sum256([]byte(c.Origin + "|" + string(c.Task.Task) + "|" + name))
	return hex.EncodeToString(key[:])
}

// stepName returns the name of a step. The name of the execution is the name of the step,
// a hyphen and a UUID.
func stepName(x *entry.Execution) (name string, ok bool) {
	at := len(x.Exec) - len("-01234567-0123-0123-0123-0123456789ab")
	if at <= 0 {
		return "", false
	}
	_, err := uuid.Parse(x.Exec[at+1:])
	return x.Exec[:at], err == nil && x.Exec[at] == '-'
}

// execution returns the entry of a step with its present progress.
func (s *Step) execution(c *Claim) *entry.Execution {
	_, id := s.Exec.Split()
	x := &entry.Execution{Exec: id, Parents: []entry.Parent{{Exec: s.Run, Dep: entry.Hard}}, Effect: s.Effect, Progress: s.Progress, Task: c.Task.Task}
	if s.Effect != entry.EffectNone {
		x.IdempotencyKey = entry.DigestOf(s.Key)
	}
	return x
}

// endStep logs how a step ended. If the log has ended the step already, the step takes the
// progress in the log. The process that logged the end may have been killed before it noted
// the end, or another process of the agent was faster.
func endStep(ctx context.Context, c *Claim, s *Step) error {
	err := c.Submit(ctx, s.execution(c))
	if problem, ok := errors.AsType[*api.Problem](err); !ok || problem.Name() != entry.StateConflict {
		return err
	}
	all, unread := loggedSteps(ctx, c)
	if unread == nil && s.endedIn(all) {
		return nil
	}
	return errors.Join(err, unread)
}

// endedIn takes up the final progress of the step from the steps of the log, if there is one.
func (s *Step) endedIn(all steps) bool {
	at := slices.IndexFunc(all, func(other Step) bool { return other.Exec == s.Exec && other.Progress.Final() })
	if at >= 0 {
		s.Progress = all[at].Progress
	}
	return at >= 0
}

// keep stores the step in the directory of a run.
func (s *Step) keep(dir string) error {
	return writeJSON(filepath.Join(dir, "step-"+s.Name+".json"), s)
}
