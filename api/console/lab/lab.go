// Package lab is the room of the console in which people try policies: reports of runs, sweeps of
// one number of a policy, comparisons of two policies, and replays. The recovery engine runs on the
// machine that serves the pages, so that a ledger does not have this room.
//
// Scenarios, policies and runs stand on a shelf: files that were uploaded, and files of a directory
// that the console was started with. What takes long is a job. One job runs at a time, and a person
// can cancel the job. Each page shows the command that says the same in the same words, which
// package runs has.
package lab

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"sync"

	"recoveryledger/api/console"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

//go:embed pages/*.html parts/*.html
var files embed.FS

// Config says what a lab works on. It is copied once.
type Config struct {
	// Runs is a directory with runs, scenarios and policies, which the lab only reads; empty: there
	// is none.
	Runs string
	// Uploads is the directory of what people upload, and of what jobs make. Required.
	Uploads string
	// Workers is how many cases a job has in work at a time.
	Workers int
	// Build is the version of the program, for what runs keep.
	Build string
	// Now returns Unix milliseconds, for what runs keep. Required.
	Now func() int64
	// InForce returns the policy of the log that is in force; nil: no page shows the policy.
	InForce func() *entry.Policy
}

// Lab is the room. Run must run for jobs to go on.
type Lab struct {
	cfg   Config
	shelf shelf
	work  chan *job

	lock sync.Mutex // guards the jobs and what of a job says so
	jobs []*job     // the newest last
	next int        // number of the next job
}

var _ console.Room = (*Lab)(nil)

// New returns a lab. The error says what the configuration lacks.
func New(c *Config) (*Lab, error) {
	if c.Uploads == "" || c.Now == nil {
		return nil, errors.New("lab: new: Uploads and Now are required")
	}
	return &Lab{cfg: *c, shelf: shelf{given: c.Uploads, runs: c.Runs, most: uploadMax}, work: make(chan *job, 1), next: 1}, nil
}

// Section implements [console.Room].
func (l *Lab) Section() console.Section { return console.Section{Name: "Lab", Path: "/lab"} }

// Files implements [console.Room].
func (l *Lab) Files() fs.FS { return files }

// Views implements [console.Room].
func (l *Lab) Views() []console.View {
	return []console.View{
		{Pattern: "GET /lab", Answer: l.index},
		{Pattern: "POST /lab/files", Answer: l.upload},
		{Pattern: "GET /lab/policy", Answer: l.policy},
		{Pattern: "POST /lab/policy", Answer: l.edit},
		{Pattern: "GET /lab/runs/{shelf}/{run}", Answer: l.report},
		{Pattern: "GET /lab/runs/{shelf}/{run}/cases", Answer: l.cases},
		{Pattern: "GET /lab/runs/{shelf}/{run}/case", Answer: l.caseOfRun},
		{Pattern: "GET /lab/sweep", Answer: l.sweepForm},
		{Pattern: "POST /lab/sweep", Answer: l.startSweep},
		{Pattern: "GET /lab/compare", Answer: l.compare},
		{Pattern: "POST /lab/compare", Answer: l.startCompare},
		{Pattern: "GET /lab/replay", Answer: l.replayForm},
		{Pattern: "POST /lab/replay", Answer: l.startReplay},
		{Pattern: "GET /lab/jobs/{job}", Answer: l.job},
		{Pattern: "GET /lab/jobs/{job}/case", Answer: l.caseOfJob},
		{Pattern: "POST /lab/jobs/{job}/cancel", Answer: l.cancel},
	}
}

// Run carries jobs out, one after the other, until ctx ends.
func (l *Lab) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case j := <-l.work:
			l.carryOut(ctx, j)
		}
	}
}

// indexPage is the first page of the room.
type indexPage struct {
	Runs, Scenarios, Policies []item
	Jobs                      []jobRow
	Directory                 string // that the console was started with; empty: none
	UploadMax, PolicyMax      int64  // bytes
}

// index is GET /lab.
func (l *Lab) index(http.ResponseWriter, *http.Request) (*console.Page, error) {
	body := &indexPage{Directory: l.cfg.Runs, Jobs: l.rows(), UploadMax: l.shelf.most, PolicyMax: recovery.DocumentMax}
	var err error
	if body.Runs, body.Scenarios, body.Policies, err = l.shelf.list(); err != nil {
		return nil, refusal(err)
	}
	return &console.Page{Name: "lab", Title: "Lab", Command: "arl recover --scenario FILE --policy FILE --out DIR", Body: body}, nil
}

// refusal says in the form of a page what an error of the engine or of the file system says.
func refusal(err error) error {
	if _, ok := errors.AsType[*entry.Refusal](err); ok {
		return err
	}
	wrong := &entry.Refusal{Problem: entry.NotReady, Detail: err.Error()}
	if of, ok := errors.AsType[*scenario.Error](err); ok {
		wrong.Problem = of.Problem
	}
	if _, ok := errors.AsType[*recovery.Error](err); ok {
		wrong.Problem = entry.Malformed
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		wrong.Problem = entry.NotFound
		wrong.Remedy = "the page of the lab lists what is there"
	case errors.Is(err, os.ErrPermission):
		wrong.Remedy = "let the person who runs the console read the file"
	}
	return wrong
}
