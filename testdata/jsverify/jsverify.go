// Package jsverify asks verify/js, the verifier in JavaScript, for its verdicts, so
// that tests compare them with those of verify and verify/bundle.
//
// The package is for tests alone. It lies in testdata so that the product cannot
// depend on it.
package jsverify

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/testdata/needs"
)

// Node returns the path of node, of version 20 or later. Without it the test skips;
// where CI is set it fails.
func Node(tb testing.TB) string {
	tb.Helper()
	node := needs.Program(tb, "node", "nodejs", "verify/js is not run")
	out, err := exec.CommandContext(tb.Context(), node, "-p", "parseInt(process.versions.node) >= 20").Output()
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		tb.Fatalf("%s is older than version 20, which verify/js needs: %s %v", node, out, err)
	}
	return node
}

// Dir is the folder of verify/js.
func Dir() string {
	return filepath.Join(needs.Root(), "verify", "js")
}

// A Judge is one process of the verifier, which judges until the test ends.
type Judge struct {
	tb     testing.TB
	in     io.WriteCloser
	out    *bufio.Reader
	errors *bytes.Buffer
}

// Start starts a judge.
func Start(tb testing.TB) *Judge {
	tb.Helper()
	return StartProgram(tb, Node(tb), "--no-warnings", filepath.Join(Dir(), "judge.js"))
}

// StartProgram starts another verifier as a judge, which answers the same questions.
func StartProgram(tb testing.TB, program string, args ...string) *Judge {
	tb.Helper()
	command := exec.CommandContext(context.WithoutCancel(tb.Context()), program, args...)
	in, err := command.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	j := &Judge{tb: tb, in: in, out: bufio.NewReader(out), errors: new(bytes.Buffer)}
	command.Stderr = j.errors
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		if err := command.Wait(); err != nil && !tb.Failed() {
			tb.Errorf("%v: %s", err, j.errors)
		}
	})
	return j
}

// Files is a question about receipts, heads and evidence.
type Files struct {
	Root      []byte   `json:"root"`
	Files     [][]byte `json:"files"`
	Questions any      `json:"questions,omitempty"` // to histories
}

// Bundle is a question about an authorization bundle.
type Bundle struct {
	Bundle   []byte `json:"bundle"`
	Accepted string `json:"accepted"`
	Now      int64  `json:"now"`
}

// Ask asks a question, and reads the answer into one.
func (j *Judge) Ask(question, answer any) {
	j.tb.Helper()
	j.Send(question)
	j.Receive(answer)
}

// Send asks a question, whose answer Receive reads. Meanwhile the judge works, and so may others.
func (j *Judge) Send(question any) {
	j.tb.Helper()
	line, err := json.Marshal(question)
	if err != nil {
		j.tb.Fatal(err)
	}
	if _, err := j.in.Write(append(line, '\n')); err != nil {
		j.tb.Fatalf("the judge takes no question: %v\n%s", err, j.errors)
	}
}

// Receive reads the answer to the question that was sent.
func (j *Judge) Receive(answer any) {
	j.tb.Helper()
	line, err := j.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, answer)
	}
	if err != nil {
		j.tb.Fatalf("the judge answers %.200q: %v\n%s", line, err, j.errors)
	}
}
