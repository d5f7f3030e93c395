package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"recoveryledger/ledger/process"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Verifier is a program under test, and the vectors that it is asked.
type Verifier struct {
	Argv    []string      // the program and its arguments, run without a shell
	Vectors fs.FS         // with the layout of testdata/vectors
	Limit   time.Duration // for one answer; above 0
	Stderr  io.Writer     // takes what the program says there
}

// maxAnswer is the longest line that a program may answer, in bytes.
const maxAnswer = 4 << 20

// maxStarts is how often a program is started: again after each crash, hang or line that is no
// answer.
const maxStarts = 5

// answer is a verdict as a program writes it.
type answer struct {
	ID          string         `json:"id"`
	Refused     *string        `json:"refused"`     // problem type, or step and rule; empty: accepted
	Result      jsontext.Value `json:"result"`      // of what is accepted, where the vector has one
	Unsupported string         `json:"unsupported"` // why the program does not judge the vector
	Detail      string         `json:"detail"`      // for people
}

// Run asks the program every vector. The error is that of the vectors or of the context: what the
// program does wrong is in the report. When Run returns, the program and its process group are
// ended.
func (v *Verifier) Run(ctx context.Context) (*Report, error) {
	files, err := readVectors(v.Vectors)
	if err != nil {
		return nil, err
	}
	var results []Result
	var p *program
	starts := 0
	defer func() { p.end() }()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		q, err := ask(files, name)
		if err != nil {
			return nil, err
		}
		result := Result{Case: name, Statements: statementsOf(name), About: q.about}
		if p == nil && starts == maxStarts {
			results = append(results, q.fail(result, fmt.Sprintf("not asked: the program failed %d times", starts)))
			continue
		}
		if p == nil {
			starts++
			p, err = v.start(ctx)
		}
		var got *answer
		var line string
		if err == nil {
			got, line, err = p.ask(ctx, q, v.Limit)
		}
		if cause := ctx.Err(); cause != nil {
			return nil, cause
		}
		if err != nil {
			p.end()
			p = nil
			results = append(results, q.fail(result, err.Error()))
			continue
		}
		results = append(results, q.judge(result, got, line))
	}
	return newReport("verifier", results), nil
}

func (q *question) fail(r Result, got string) Result {
	r.Outcome, r.Sent, r.Got = Failed, string(q.line), got
	r.Expected = fmt.Sprintf("refused %q", q.refused)
	if q.result != nil {
		if text, err := json.Marshal(q.result, json.Deterministic(true)); err == nil {
			r.Expected += ", result " + string(text)
		}
	}
	return r
}

// judge compares an answer with what the vector wants.
func (q *question) judge(r Result, got *answer, line string) Result {
	if got.Unsupported != "" {
		r.Outcome, r.Got = NotApplicable, got.Unsupported
		return r
	}
	want, err := json.Marshal(q.result)
	if err != nil || *got.Refused != q.refused || q.result != nil && !same(want, got.Result) {
		return q.fail(r, line)
	}
	r.Outcome = Passed
	return r
}

// same reports whether two JSON values are equal, in whatever order their members stand.
func same(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && string(a) == string(b)
}

// program is one process of the program under test.
type program struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // closed at the end of the output
	stop  chan struct{}
}

func (v *Verifier) start(ctx context.Context) (*program, error) {
	cmd := exec.CommandContext(ctx, v.Argv[0], v.Argv[1:]...)
	process.Group(cmd)
	cmd.Stderr, cmd.WaitDelay = v.Stderr, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the program does not start: %w", err)
	}
	p := &program{cmd: cmd, in: in, lines: make(chan []byte), stop: make(chan struct{})}
	go p.read(out)
	return p, nil
}

// read hands on the lines of the output, until its end or the end of the program.
func (p *program) read(out io.Reader) {
	defer close(p.lines)
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, maxAnswer)
	for scanner.Scan() {
		select {
		case p.lines <- slices.Clone(scanner.Bytes()):
		case <-p.stop:
			return
		}
	}
}

// end ends the program with all that it has started. A program that never started needs no end.
func (p *program) end() {
	if p == nil {
		return
	}
	close(p.stop)
	process.End(p.cmd, syscall.SIGKILL)
	_ = p.in.Close()
	_ = p.cmd.Wait() // it was killed
}

var (
	errHang  = errors.New("hangs")
	errCrash = errors.New("ended its output")
)

// ask asks one question. A program that reads nothing is one that does not answer.
func (p *program) ask(ctx context.Context, q *question, limit time.Duration) (*answer, string, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = p.in.Write(append(slices.Clone(q.line), '\n')) // where it fails, the output ends
	}()
	var line []byte
	var open bool
	select {
	case line, open = <-p.lines:
	case <-timer.C:
		return nil, "", fmt.Errorf("the program %w: no answer within %s", errHang, limit)
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	if !open {
		return nil, "", fmt.Errorf("the program %w without an answer: it crashed, or its line is longer than %d bytes", errCrash, maxAnswer)
	}
	select {
	case <-written:
	case <-timer.C:
		return nil, "", fmt.Errorf("the program %w: it answers without reading the question", errHang)
	}
	var got answer
	if err := json.Unmarshal(line, &got); err != nil {
		return nil, "", fmt.Errorf("garbage: %s: %w", shortened(string(line)), err)
	}
	switch {
	case got.ID != q.id:
		return nil, "", fmt.Errorf("out of order: the answer has the id %q", got.ID)
	case got.Refused == nil && got.Unsupported == "":
		return nil, "", fmt.Errorf("no verdict: the answer has neither refused nor unsupported: %s", shortened(string(line)))
	}
	return &got, string(line), nil
}
