package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/worker"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

func (a *app) workCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Declare what a program does, from inside arl run",
		Long: "Declare what a program does, from inside arl run, whose environment says which task it works on. A step with an\n" +
			"effect is begun before the program acts: the receipt is in the log then.",
		Example: "  arl work begin charge --effect compensable",
	}
	t.register(cmd.PersistentFlags())
	cmd.AddCommand(a.workBeginCommand(&t), a.workEndCommand(&t), a.workCheckpointCommand(&t), a.workProgressCommand())
	return cmd
}

// runVariables are the variables that arl run gives to a program, and those by
// which arl work knows what it is inside of. They are no settings.
func runVariables() []string {
	return []string{"ARL_TASK", "ARL_TASK_TYPE", "ARL_WORKFLOW", "ARL_EPOCH", "ARL_AGENT", "ARL_EXEC", "ARL_ATTEMPT", "ARL_RUN_DIR", "ARL_CHECKPOINT",
		"ARL_STRATEGY", "ARL_VARIANT", "ARL_RUN_KEY", "ARL_RUN_URL", "ARL_PROGRAM", "ARL_STEP", "ARL_EFFECT", "ARL_IDEMPOTENCY_KEY"}
}

// step is a step of the work, as the run's directory remembers it.
type step struct {
	Name     string         `json:"step"`
	Exec     entry.Ref      `json:"exec"`
	Run      entry.Ref      `json:"run"` // the execution that stands for the claim
	Effect   entry.Effect   `json:"effect"`
	Progress entry.Progress `json:"progress"`
	Key      string         `json:"idempotency_key"`
}

// steps are those of a claim.
type steps []step

// inDoubt returns the steps whose effects may have taken place without anybody
// knowing.
func (all steps) inDoubt() (doubt steps) {
	for _, s := range all {
		if s.Effect != entry.EffectNone && s.Progress == entry.Dispatched {
			doubt = append(doubt, s)
		}
	}
	return doubt
}

// confirmed reports whether the effects of all of them took place.
func (all steps) confirmed() bool {
	return !slices.ContainsFunc(all, func(s step) bool { return s.Progress != entry.Confirmed })
}

// names lists them for people.
func (all steps) names() string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return strings.Join(names, ", ")
}

// agent is whose step it is.
func (s *step) agent() entry.Principal {
	agent, _ := s.Exec.Split()
	return agent
}

// loggedSteps reads from the log the steps of a task, of all its claims: their
// names stand in those of their executions, and their keys follow from the names.
func loggedSteps(ctx context.Context, c *worker.Claim) (all steps, err error) {
	err = worker.Insist(ctx, func() (err error) { all, err = readSteps(ctx, c); return err })
	return all, err
}

func readSteps(ctx context.Context, c *worker.Claim) (all steps, err error) {
	of := map[entry.Ref]int{}
	for e, err := range c.Client.Entries(ctx, client.Query{Task: c.Task.Task, Kinds: []entry.Kind{entry.KindExecution}}) {
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
				continue // no step of arl work
			}
			s := step{Name: name, Exec: x.Ref(), Run: x.Parents[0].Exec, Effect: x.Effect, Key: stepKey(c, name)}
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

// doneBefore finds a step with an effect that an earlier claim of the task has
// done, if that was not undone since.
func doneBefore(ctx context.Context, c *worker.Claim, name string) (done *step, err error) {
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

// undone reports whether the newest outcome of a step says that its effect was
// taken back.
func (s *step) undone(ctx context.Context, c *worker.Claim) (bool, error) {
	for e, err := range c.Client.Entries(ctx, client.Query{Agent: s.agent(), Kinds: []entry.Kind{entry.KindOutcome}, Newest: true}) {
		if err != nil {
			return false, err
		}
		if o, ok := e.Body.(*entry.Outcome); ok && o.Exec == s.Exec {
			return o.Result == entry.Restored || o.Result == entry.Compensated, nil
		}
	}
	return false, nil
}

// readRunDir reads what the program declared.
func readRunDir(dir string) (all steps, p worker.Progress, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "step-*.json"))
	for _, path := range found {
		var s step
		if err := readJSON(path, &s); err != nil {
			return nil, p, err
		}
		all = append(all, s)
	}
	if err == nil {
		err = readJSON(filepath.Join(dir, "progress.json"), &p)
	}
	if errors.Is(err, fs.ErrNotExist) {
		p, err = worker.Progress{Status: "in_progress"}, nil
	}
	return all, p, err
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return withExit(exitIO, fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = durable.Write(path, text, 0o600)
	}
	return output(path, err)
}

// inside is the claim that the environment speaks of.
func (a *app) inside(ctx context.Context, t *target, use func(*worker.Claim, string) error) error {
	dir, task := os.Getenv("ARL_RUN_DIR"), entry.Ref(os.Getenv("ARL_TASK"))
	epoch, err := strconv.ParseInt(os.Getenv("ARL_EPOCH"), 10, 64)
	if dir == "" || task == "" || err != nil {
		return usage("this is not inside arl run: its environment has no ARL_RUN_DIR, ARL_TASK, ARL_EPOCH")
	}
	if t.url == "" {
		t.url = os.Getenv("ARL_RUN_URL")
	}
	return a.withConnection(ctx, t, func(c *connection) error {
		signer, err := a.signer(ctx, c, signerFlags{key: os.Getenv("ARL_RUN_KEY"), principal: os.Getenv("ARL_AGENT")}, "")
		if err != nil {
			return err
		}
		config := &worker.Config{Client: c.client, Origin: c.root.Origin, Agent: signer.principal, Signer: signer, NewID: uuid.NewString}
		return use(&worker.Claim{Config: config, Exec: entry.Ref(os.Getenv("ARL_EXEC")),
			Task: api.Task{Task: task, Wid: entry.WorkflowID(os.Getenv("ARL_WORKFLOW")), Epoch: epoch}}, dir)
	})
}

// stepFile is where a step is remembered.
func stepFile(dir, name string) (string, error) {
	if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		return "", usage("step %.80q: want 1 to 64 letters, digits, _ . -", name)
	}
	return filepath.Join(dir, "step-"+name+".json"), nil
}

func (a *app) workBeginCommand(t *target) *cobra.Command {
	var effect string
	cmd := &cobra.Command{
		Use:   "begin STEP",
		Short: "Log a step before it is done",
		Long: "Log a step before it is done, and print its idempotency key: the same for the same step of the same task, whoever\n" +
			"holds it, so that the service that has the effect can tell that it was asked before. A step with an effect that an\n" +
			"attempt before has done, also of another agent, is not begun again: its progress is confirmed then, and not dispatched.\n" +
			"One that was begun and not ended is the same one still.",
		Example: "  arl work begin charge --effect compensable",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), t, func(c *worker.Claim, dir string) error {
				s, err := beginStep(cmd.Context(), c, dir, args[0], entry.Effect(effect))
				if err != nil {
					return err
				}
				return a.printStep(s)
			})
		},
	}
	cmd.Flags().StringVar(&effect, "effect", string(entry.EffectNone), "what it does to the world: none|reversible|compensable|irrevocable|undeclared")
	return cmd
}

// beginStep logs a step, unless it has an effect that took place already. One that
// was begun and not ended is the same one still: a second execution would leave
// the first in doubt.
func beginStep(ctx context.Context, c *worker.Claim, dir, name string, effect entry.Effect) (*step, error) {
	file, err := stepFile(dir, name)
	if err != nil {
		return nil, err
	}
	before := new(step)
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
	case before != nil && before.Progress == entry.Dispatched && before.Effect != effect:
		return nil, usage("step %s was begun with effect %s, and is not ended", name, before.Effect)
	case before != nil && before.Progress == entry.Dispatched:
		return before, dispatchAgain(ctx, c, before)
	}
	s := &step{name, entry.NewRef(c.Agent, name+"-"+c.NewID()), c.Exec, effect, entry.Dispatched, stepKey(c, name)}
	// Remembered first: what may be in the log is in doubt.
	if err := writeJSON(file, s); err != nil {
		return nil, err
	}
	if err := c.Submit(ctx, s.execution(c)); err != nil {
		if refused(err) { // it is not in the log, and never will be
			err = errors.Join(err, forget())
		}
		return nil, err
	}
	return s, nil
}

// refused reports whether an entry was answered with a refusal for good, by the
// ledger or before it was sent.
func refused(err error) bool {
	problem, answered := errors.AsType[*api.Problem](err)
	_, malformed := errors.AsType[*entry.Refusal](err)
	return malformed || answered && !problem.Temporary()
}

// dispatchAgain logs a step that may be in the log.
func dispatchAgain(ctx context.Context, c *worker.Claim, s *step) error {
	err := c.Submit(ctx, s.execution(c))
	if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Name() == entry.StateConflict && problem.Field == "progress" {
		return nil // it is
	}
	return err
}

// stepKey is the idempotency key of a step of a task, whoever holds it.
func stepKey(c *worker.Claim, name string) string {
	key := sha256.Sum256([]byte(c.Origin + "|" + string(c.Task.Task) + "|" + name))
	return hex.EncodeToString(key[:])
}

// stepName is the name of a step in that of its execution, before its UUID.
func stepName(x *entry.Execution) (name string, ok bool) {
	at := len(x.Exec) - len("-01234567-0123-0123-0123-0123456789ab")
	if at <= 0 {
		return "", false
	}
	_, err := uuid.Parse(x.Exec[at+1:])
	return x.Exec[:at], err == nil && x.Exec[at] == '-'
}

// execution is the entry of a step as far as it is.
func (s *step) execution(c *worker.Claim) *entry.Execution {
	_, id := s.Exec.Split()
	x := &entry.Execution{Exec: id, Parents: []entry.Parent{{Exec: s.Run, Dep: entry.Hard}}, Effect: s.Effect, Progress: s.Progress, Task: c.Task.Task}
	if s.Effect != entry.EffectNone {
		sum := sha256.Sum256([]byte(s.Key))
		x.IdempotencyKey = "sha256:" + hex.EncodeToString(sum[:])
	}
	return x
}

func (a *app) printStep(s *step) error {
	return a.printObject(*s, field{"exec", string(s.Exec)}, field{"progress", string(s.Progress)}, field{"idempotency key", s.Key})
}

func (a *app) workEndCommand(t *target) *cobra.Command {
	var failed bool
	cmd := &cobra.Command{
		Use:     "end STEP",
		Short:   "Log that a step is done, or failed without effect",
		Example: "  arl work end charge",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inside(cmd.Context(), t, func(c *worker.Claim, dir string) error {
				file, err := stepFile(dir, args[0])
				if err != nil {
					return err
				}
				var s step
				if err := readJSON(file, &s); err != nil {
					return err
				}
				progress := entry.Confirmed
				if failed {
					progress = entry.Failed
				}
				if s.Progress == progress {
					return nil // it stands in the log
				}
				s.Progress = progress
				if err := endStep(cmd.Context(), c, &s); err != nil {
					return err
				}
				if s.Progress != progress {
					err = withExit(exitConflict, fmt.Errorf("step %s: the log has ended it as %s, and it never goes on from there", s.Name, s.Progress))
				}
				return errors.Join(err, writeJSON(file, s))
			})
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "it failed, and had no effect")
	return cmd
}

// endStep logs how a step ended. Where the log has ended it, the step is as the log
// says: what logged it may have been killed before it could note that, or another
// process of the agent was faster.
func endStep(ctx context.Context, c *worker.Claim, s *step) error {
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

// endedIn takes up how steps of the log have ended this one, if they have.
func (s *step) endedIn(all steps) bool {
	at := slices.IndexFunc(all, func(other step) bool { return other.Exec == s.Exec && other.Progress.Final() })
	if at >= 0 {
		s.Progress = all[at].Progress
	}
	return at >= 0
}

func (a *app) workCheckpointCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint FILE",
		Short: "Log a restore point: a file that the next attempt goes on from",
		Long: "Log a restore point: a file that the next attempt goes on from, wherever it runs, if it can read it. The log has its\n" +
			"digest and path, never what is in it.",
		Example: "  arl work checkpoint /shared/report-7/state.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return withExit(exitIO, err)
			}
			digest, err := fileDigest(path)
			if err != nil {
				return withExit(exitIO, err)
			}
			return a.inside(cmd.Context(), t, func(c *worker.Claim, _ string) error {
				var now *api.Task
				err := worker.Insist(cmd.Context(), func() (err error) { now, err = c.Client.Task(cmd.Context(), c.Task.Task); return err })
				switch {
				case err != nil:
					return err
				case now.Epoch != c.Task.Epoch: // a checkpoint names no epoch
					return withExit(exitConflict, fmt.Errorf("%s is at epoch %d, and this claim was %d: the work goes on elsewhere, or not at all", c.Task.Task, now.Epoch, c.Task.Epoch))
				}
				return c.Submit(cmd.Context(), &entry.Checkpoint{Checkpoint: entry.CheckpointName(c.Task.Task) + uuid.NewString(), Digest: digest, Loc: "file://" + path})
			})
		},
	}
	return cmd
}

func fileDigest(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// checkpoint returns the path of the newest checkpoint of the task whose file is
// here as it was; empty if there is none.
func (w *runner) checkpoint(ctx context.Context) (string, error) {
	prefix := entry.CheckpointName(w.claim.Task.Task)
	for e, err := range w.c.client.Entries(ctx, client.Query{Workflow: w.claim.Task.Wid, Kinds: []entry.Kind{entry.KindCheckpoint}, Newest: true}) {
		if err != nil {
			return "", err
		}
		point, ok := e.Body.(*entry.Checkpoint)
		if !ok || !strings.HasPrefix(point.Checkpoint, prefix) {
			continue
		}
		path, local := strings.CutPrefix(point.Loc, "file://")
		if digest, err := fileDigest(path); local && err == nil && digest == point.Digest {
			return path, nil
		}
	}
	return "", nil
}

func (a *app) workProgressCommand() *cobra.Command {
	p := worker.Progress{Status: "in_progress"}
	cmd := &cobra.Command{
		Use:     "progress",
		Short:   "Note how far the work is, for the snapshot of a failure",
		Example: "  arl work progress --turns 7 --messages 31 --cost-micro-usd 12000",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir := os.Getenv("ARL_RUN_DIR")
			if dir == "" {
				return usage("this is not inside arl run: its environment has no ARL_RUN_DIR")
			}
			return writeJSON(filepath.Join(dir, "progress.json"), p)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&p.Turns, "turns", 0, "turns taken")
	flags.Int64Var(&p.MaxTurns, "max-turns", 0, "turns allowed")
	flags.Int64Var(&p.Messages, "messages", 0, "messages in the context: their number")
	flags.Int64Var(&p.CostMicroUSD, "cost-micro-usd", 0, "money spent")
	flags.StringVar(&p.Status, "status", p.Status, "one word")
	return cmd
}
