package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// Work is a claim as the program of a [Worker] sees it: the program declares its
// steps, its checkpoints and its progress. A Work is made by [Inside].
type Work struct {
	Claim Claim // without a [Config]: the user of the Work sets it
	Dir   string
	// URL of the ledger, Key file and Agent are those of the worker.
	URL, Key string
	Agent    entry.Principal
}

// Variables returns the names of the variables that a [Worker] gives to its program and to
// its probe. [Inside] reads them. They are not settings.
func Variables() []string {
	return []string{"ARL_TASK", "ARL_TASK_TYPE", "ARL_WORKFLOW", "ARL_EPOCH", "ARL_AGENT", "ARL_EXEC", "ARL_ATTEMPT", "ARL_RUN_DIR", "ARL_CHECKPOINT",
		"ARL_STRATEGY", "ARL_VARIANT", "ARL_RUN_KEY", "ARL_RUN_URL", "ARL_PROGRAM", "ARL_STEP", "ARL_EFFECT", "ARL_IDEMPOTENCY_KEY"}
}

// Inside returns the claim that an environment describes. getenv reads the environment, as
// [os.Getenv] does. The error has [ReasonInvalid] outside a worker's program.
func Inside(getenv func(string) string) (*Work, error) {
	dir, task := getenv("ARL_RUN_DIR"), entry.Ref(getenv("ARL_TASK"))
	epoch, err := strconv.ParseInt(getenv("ARL_EPOCH"), 10, 64)
	if dir == "" || task == "" || err != nil {
		return nil, failed(ReasonInvalid, "this program does not run inside arl run: the environment has no ARL_RUN_DIR, ARL_TASK, ARL_EPOCH")
	}
	c := Claim{Exec: entry.Ref(getenv("ARL_EXEC")), Task: api.Task{Task: task, Wid: entry.WorkflowID(getenv("ARL_WORKFLOW")), Epoch: epoch}}
	return &Work{Claim: c, Dir: dir, URL: getenv("ARL_RUN_URL"), Key: getenv("ARL_RUN_KEY"), Agent: entry.Principal(getenv("ARL_AGENT"))}, nil
}

// Begin logs a step before the program does it. If the effect of the step took place already,
// also by another agent, Begin returns the step as confirmed. A step that was begun and not
// ended keeps its execution.
func (w *Work) Begin(ctx context.Context, name string, effect entry.Effect) (*Step, error) {
	return beginStep(ctx, &w.Claim, w.Dir, name, effect)
}

// End logs that a step is done. With unsuccessful, it logs that the step failed and had no
// effect. The error has [ReasonConflict] if the log has ended the step in the other way.
func (w *Work) End(ctx context.Context, name string, unsuccessful bool) error {
	file, err := stepFile(w.Dir, name)
	if err != nil {
		return err
	}
	var s Step
	if err := readJSON(file, &s); err != nil {
		return err
	}
	progress := entry.Confirmed
	if unsuccessful {
		progress = entry.Failed
	}
	if s.Progress == progress {
		return nil // the log has it already
	}
	s.Progress = progress
	if err := endStep(ctx, &w.Claim, &s); err != nil {
		return err
	}
	if s.Progress != progress {
		err = failed(ReasonConflict, "step %s: its final progress in the log is %s, which never changes", s.Name, s.Progress)
	}
	return errors.Join(err, writeJSON(file, &s))
}

// Checkpoint logs a restore point: the path and the digest of a file from which the next
// attempt continues. The log does not hold the contents. The error has [ReasonFile] if the
// file cannot be read, and [ReasonConflict] if the claim is over.
func (w *Work) Checkpoint(ctx context.Context, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return &Error{ReasonFile, err}
	}
	digest, err := fileDigest(path)
	if err != nil {
		return &Error{ReasonFile, err}
	}
	c := &w.Claim
	var now *api.Task
	err = insist(ctx, func() (err error) { now, err = c.Client.Task(ctx, c.Task.Task); return err })
	switch {
	case err != nil:
		return err
	case now.Epoch != c.Task.Epoch: // a checkpoint names no epoch
		return failed(ReasonConflict, "%s is at epoch %d, and this claim was %d: another worker may now hold the task", c.Task.Task, now.Epoch, c.Task.Epoch)
	}
	return c.Submit(ctx, &entry.Checkpoint{Checkpoint: entry.CheckpointName(c.Task.Task) + c.NewID(), Digest: digest, Loc: "file://" + path})
}

// checkpoint returns the path of the newest checkpoint from which the task may go on, and whose
// file is here and unchanged. It is empty if there is none.
func (c *Claim) checkpoint(ctx context.Context) (string, error) {
	now, err := c.Client.Task(ctx, c.Task.Task)
	if err != nil {
		return "", err
	}
	for _, index := range now.Checkpoints {
		e, err := c.Client.Entry(ctx, index)
		if err != nil {
			return "", err
		}
		point, ok := e.Body.(*entry.Checkpoint)
		if !ok || point.Wid != c.Task.Wid || !strings.HasPrefix(point.Checkpoint, entry.CheckpointName(c.Task.Task)) {
			continue // the server lies
		}
		path, local := strings.CutPrefix(point.Loc, "file://")
		if digest, err := fileDigest(path); local && err == nil && digest == point.Digest {
			return path, nil
		}
	}
	return "", nil
}

func fileDigest(path string) (entry.Digest, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return entry.DigestOf(text), nil
}

// NoteProgress stores the progress of an attempt in the directory of a run, for the snapshot of a
// failure, and for what the attempt spent.
func NoteProgress(dir string, p *Progress) error { return writeJSON(progressFile(dir), p) }

func progressFile(dir string) string { return filepath.Join(dir, "progress.json") }
