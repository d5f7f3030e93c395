package lab

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"recoveryledger/api/console"
	"recoveryledger/ledger/entry"
)

// jobsMax is how many jobs a lab remembers.
const jobsMax = 32

// The states of a job.
const (
	running   = "running"
	cancelled = "cancelled"
	failed    = "failed"
	done      = "done"
)

// job is work that takes long.
type job struct {
	N       int
	Title   string
	Command string // does the same in a terminal
	back    string // path of the form that started it
	unit    string // of the progress: bytes or cases

	// do does the work, and tells of its progress.
	do func(ctx context.Context, tell func(done, total int64)) error
	// show adds the finding to the page of a job that is done.
	show func(q *http.Request, p *jobPage) error
	// sweep has what a sweep was about; nil: the job is none.
	sweep *sweepJob

	soFar, of atomic.Int64

	// The lock of the lab guards what follows.
	state string
	err   error
	end   context.CancelFunc // of a job that has begun
}

// jobRow is a line of the list of jobs.
type jobRow struct {
	N            int
	Title, State string
}

// rows returns the jobs, the newest first.
func (l *Lab) rows() (list []jobRow) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, j := range slices.Backward(l.jobs) {
		list = append(list, jobRow{j.N, j.Title, j.state})
	}
	return list
}

// begin begins a job, if none runs. The page that answers leads to the page of the job.
func (l *Lab) begin(j *job) (*console.Page, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, other := range l.jobs {
		if other.state == running {
			return nil, entry.Refuse(entry.StateConflict, "job", "job %d is running: %s", other.N, other.Title).
				WithRemedy("wait until it is done, or cancel it on its page; the page of the lab links it")
		}
	}
	select {
	case l.work <- j:
	default: // a job that was cancelled before it began still stands there
		return nil, entry.Refuse(entry.StateConflict, "job", "the job before is being cancelled").WithRemedy("start the job again in a moment")
	}
	j.N, j.state = l.next, running
	l.next++
	l.jobs = append(l.jobs, j)
	l.jobs = l.jobs[max(0, len(l.jobs)-jobsMax):]
	return &console.Page{To: "/lab/jobs/" + strconv.Itoa(j.N)}, nil
}

// carryOut does a job.
func (l *Lab) carryOut(ctx context.Context, j *job) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	l.lock.Lock()
	over := j.state != running
	j.end = end
	l.lock.Unlock()
	if over {
		return
	}
	err := j.do(ctx, func(soFar, of int64) {
		j.soFar.Store(soFar)
		j.of.Store(of)
	})
	l.lock.Lock()
	defer l.lock.Unlock()
	switch {
	case j.state == cancelled:
	case err != nil && ctx.Err() != nil:
		j.state = cancelled
	case err != nil:
		j.state, j.err = failed, err
	default:
		j.state = done
	}
}

// find returns the job that a path names.
func (l *Lab) find(q *http.Request) (*job, error) {
	text := q.PathValue("job")
	n, err := strconv.Atoi(text)
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, j := range l.jobs {
		if err == nil && j.N == n {
			return j, nil
		}
	}
	return nil, entry.Refuse(entry.NotFound, "job", "%.40q is no job that this console remembers", text).
		WithRemedy(fmt.Sprintf("a console remembers its last %d jobs: the page of the lab lists them", jobsMax))
}

// jobPage is what the page of a job shows.
type jobPage struct {
	N           int
	State, Back string
	Error       string
	SoFar, Of   int64
	Unit        string

	Sweep   *sweepFinding
	Compare *comparison
	Replay  *replayFinding
}

// job is GET /lab/jobs/{job}.
func (l *Lab) job(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	j, err := l.find(q)
	if err != nil {
		return nil, err
	}
	l.lock.Lock()
	body := &jobPage{N: j.N, State: j.state, Back: j.back, Unit: j.unit, SoFar: j.soFar.Load(), Of: j.of.Load()}
	if j.err != nil {
		body.Error = j.err.Error()
	}
	l.lock.Unlock()
	if body.State == done {
		if err := j.show(q, body); err != nil {
			return nil, refusal(err)
		}
	}
	return &console.Page{Name: "job", Title: j.Title, Command: j.Command, Body: body, Again: body.State == running}, nil
}

// cancel is POST /lab/jobs/{job}/cancel. A job that is over stays as it is.
func (l *Lab) cancel(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	j, err := l.find(q)
	if err != nil {
		return nil, err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if j.state == running {
		j.state = cancelled
		if j.end != nil {
			j.end()
		}
	}
	return &console.Page{To: "/lab/jobs/" + strconv.Itoa(j.N)}, nil
}

// sizeOf returns the size of a file in bytes; 0: the file cannot be read, as whoever reads it says.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
