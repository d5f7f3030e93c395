// Command testsummary runs go test -json with its own arguments, prints
// each package's line as it comes and the output of what failed, and ends
// with the tests that were skipped and one line of counts. It fails when go
// test does. With TEST_SUMMARY set, it appends the package lines, skips and
// counts to that file, too.
//
// A test that skips for want of a program or of data says "missing: NAME". With
// CI set that is a failure, unless NAME lies in ../shared and nothing does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strings"
)

func main() {
	_, err := os.Stat(shared)
	s := &summary{out: os.Stdout, ci: os.Getenv("CI") != "", hasShared: err == nil}
	if err := s.run(os.Args[1:], os.Getenv("TEST_SUMMARY")); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
}

// shared is where data sets lie that are no part of the repository, seen from
// its root.
const shared = "../shared"

// run executes go test. It writes the summary to stdout and, unless the name is empty, behind what
// a file has.
func (s *summary) run(args []string, file string) error {
	cmd := exec.CommandContext(context.Background(), "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := s.read(stdout)
	waitErr := cmd.Wait()
	fmt.Fprint(s.out, strings.Join(s.skips, ""), s.counts())
	if file != "" {
		text := strings.Join(s.packages, "") + strings.Join(s.skips, "") + s.counts()
		if err := appendTo(file, text); err != nil {
			return err
		}
	}
	if waitErr == nil && s.failed > 0 {
		waitErr = errors.New("tests that CI wants were skipped")
	}
	return errors.Join(readErr, waitErr)
}

// appendTo writes once, so that what two runs write at the same time is not mixed.
func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// key names a test; Test is empty for what the package itself printed.
type key struct{ Package, Test string }

// summary folds events.
type summary struct {
	out       io.Writer
	ci        bool // whether what is missing is a failure
	hasShared bool // whether there is data beside the repository

	// passed, failed and skipped count tests and subtests. A package that
	// fails without a failed test (build, panic, time) counts as one failed.
	passed, failed, skipped int

	// pending is the output of tests without a result so far.
	pending  map[key]*strings.Builder
	failedIn map[string]bool

	packages, skips []string
}

func (s *summary) read(r io.Reader) error {
	s.pending, s.failedIn = map[key]*strings.Builder{}, map[string]bool{}
	for dec := json.NewDecoder(r); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		s.add(e)
	}
}

func (s *summary) add(e event) {
	k := key{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.out, e.Output)
	case e.Action == "output" && e.Test == "" && isPackageLine(e.Output):
		s.packages = append(s.packages, e.Output)
		fmt.Fprint(s.out, e.Output)
	case e.Action == "output":
		if s.pending[k] == nil {
			s.pending[k] = &strings.Builder{}
		}
		s.pending[k].WriteString(e.Output)
	case e.Action == "pass" && e.Test != "":
		s.passed++
		delete(s.pending, k)
	case e.Action == "skip" && e.Test != "":
		said, result := reason(s.pending[k]), "SKIP"
		if s.wanted(said) {
			s.failed++
			result = "FAIL"
		} else {
			s.skipped++
		}
		s.skips = append(s.skips, fmt.Sprintf("%s\t%s\t%s\t%s\n", result, e.Package, e.Test, said))
		delete(s.pending, k)
	case e.Action == "fail" && e.Test != "":
		s.failed++
		s.failedIn[e.Package] = true
		s.print(k)
	case e.Action == "fail":
		if !s.failedIn[e.Package] {
			s.failed++
		}
		s.printPackage(e.Package)
	}
}

// wanted reports whether a test must not be skipped for this reason.
func (s *summary) wanted(reason string) bool {
	_, missing, ok := strings.Cut(reason, "missing: ")
	return s.ci && ok && (s.hasShared || !strings.HasPrefix(missing, shared+"/"))
}

func (s *summary) print(k key) {
	if b := s.pending[k]; b != nil {
		fmt.Fprint(s.out, b.String())
		delete(s.pending, k)
	}
}

// printPackage prints what a failed package has left: its own output and
// that of tests which a panic or a timeout cut off.
func (s *summary) printPackage(name string) {
	var left []string
	for k := range s.pending {
		if k.Package == name {
			left = append(left, k.Test)
		}
	}
	sort.Strings(left)
	for _, test := range left {
		s.print(key{name, test})
	}
}

func (s *summary) counts() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
}

func isPackageLine(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

// reason is what a skipped test said: its indented lines, joined.
func reason(output *strings.Builder) string {
	if output == nil {
		return ""
	}
	var said []string
	for line := range strings.Lines(output.String()) {
		if strings.HasPrefix(line, "    ") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	return strings.Join(said, " ")
}
