//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/testdata/program"
)

// startDemo starts arl demo in a directory of its own.
func startDemo(t *testing.T, args ...string) (cmd *exec.Cmd, dir string, said *bytes.Buffer) {
	t.Helper()
	binary := program.Arl(t)
	dir = filepath.Join(t.TempDir(), "demo")
	cmd = exec.Command(binary, append([]string{"demo", "--dir", dir}, args...)...)
	said = new(bytes.Buffer)
	cmd.Stderr = said
	t.Cleanup(func() { nobodyLeft(t, dir) })
	return cmd, dir, said
}

// childrenOf returns the ids of the processes that work in the demo's directory,
// by the name of their part.
func childrenOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		if len(args) < 4 || !strings.Contains(string(text), dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		found[strings.Join(args[1:4], " ")] = pid
	}
	return found
}

// nobodyLeft wants no process of a demo that has ended.
func nobodyLeft(t *testing.T, dir string) {
	t.Helper()
	if left := childrenOf(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// varying is what differs from one run of the demo to another: times, ports,
// indexes, and where branches of a pipeline overtake each other.
var varying = regexp.MustCompile(`/tmp/arl-demo-\d+|[0-9a-f]{8}\b|\d+(\.\d+)?`)

// plain makes a timeline comparable: its lines, sorted, without what varies.
func plain(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		list = append(list, strings.Join(strings.Fields(varying.ReplaceAllString(line, "N")), " "))
	}
	slices.Sort(list)
	return list
}

// TestDemo runs the demo as users do, and compares its output with docs/demo.md.
func TestDemo(t *testing.T) {
	t.Parallel()
	cmd, dir, said := startDemo(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, said)
	}
	page, err := os.ReadFile("../../docs/demo.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "$ make demo\n")
	built, shown, _ := strings.Cut(shown, "\n")
	shown, _, _ = strings.Cut(shown, "```")
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil || !strings.Contains(string(makefile), "\n\t"+strings.Replace(strings.Replace(built, "…", "$(VERSION)", 1), "…", "$(REVISION)", 1)+"\n") {
		t.Errorf("make builds by another command than docs/demo.md shows: %s (%v)", built, err)
	}
	// The commands call arl as it was called: by its path here, and by another one in make demo.
	called := regexp.MustCompile(` [\w./-]+/arl `)
	if got, want := plain(called.ReplaceAllString(strings.ReplaceAll(string(out), dir, "/tmp/arl-demo-1"), " arl ")), plain(called.ReplaceAllString(shown, " arl ")); !slices.Equal(got, want) {
		t.Errorf("docs/demo.md shows another demo; this is a new one:\n%s", out)
	}
	decided := map[string]bool{}
	for line := range strings.Lines(string(out)) { // nobody obeys before something is decided
		if _, of, is := strings.Cut(line, "coordinator authorize incident "); is {
			number, _, _ := strings.Cut(of, ",")
			decided[number] = true
		}
		if _, of, is := strings.Cut(line, "has verified the decision about incident "); is {
			if number, _, _ := strings.Cut(of, " "); !decided[number] {
				t.Errorf("shown before the decision: %s", line)
			}
		}
	}
	for line := range strings.Lines(string(out)) { // the commands work as they are printed
		if _, command, is := strings.Cut(line, " look        "); is {
			lookAt(t, command)
		}
		_, command, is := strings.Cut(line, " try         ")
		if !is {
			continue
		}
		again := exec.Command("sh", "-c", command)
		want := 0
		if strings.Contains(command, "exit code 11") {
			want = 11
		}
		if said, err := again.CombinedOutput(); exitOf(err) != want {
			t.Errorf("%s: %v\n%s", command, err, said)
		}
	}
	if again := exec.Command(cmd.Path, "demo", "--dir", dir); exitOf(again.Run()) != 6 {
		t.Error("a second demo in the same directory was not refused")
	}
}

// lookAt runs arl console as the demo prints it, and reads the page of the incident that
// did not end well.
func lookAt(t *testing.T, command string) {
	t.Helper()
	command, _, _ = strings.Cut(command, "   #")
	process := exec.Command("sh", "-c", "exec "+command+" --listen 127.0.0.1:0 --output json")
	stdout, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }() // killed is what it says
	var started struct{ URL string }
	if err := json.NewDecoder(stdout).Decode(&started); err != nil {
		t.Fatal(err)
	}
	for {
		response, err := http.Get(started.URL + "incidents/43")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), "✓ derived here from 60 entries") {
			continue // it has not read the log yet
		}
		if !strings.Contains(string(body), "PARTIAL") {
			t.Errorf("%s shows %s", command, body)
		}
		return
	}
}

// TestDemoKilled kills the demo itself, in a way that it cannot answer: what it
// has started ends all the same.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	cmd, dir, said := startDemo(t)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "planner#list") { // all agents run
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); exitOf(err) != -1 {
		t.Fatalf("%v\n%s", err, said)
	}
	left := childrenOf(t, dir)
	for end := time.Now().Add(time.Minute); len(left) > 0 && time.Now().Before(end); left = childrenOf(t, dir) {
		time.Sleep(10 * time.Millisecond) // they are nobody's children any more: nothing tells of their end
	}
	for name, pid := range left {
		t.Errorf("%s runs on", name)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// TestDemoEnds ends a demo by Ctrl-C, and kills one of its processes from
// outside: it says so, and nothing is left running.
func TestDemoEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name  string
		by    func(t *testing.T, demo *os.Process, children map[string]int)
		exit  int
		wants string
	}{
		{"interrupted", func(t *testing.T, demo *os.Process, _ map[string]int) {
			t.Helper()
			if err := demo.Signal(syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}, 130, "interrupted"},
		{"writer killed", func(t *testing.T, _ *os.Process, children map[string]int) {
			t.Helper()
			if err := syscall.Kill(children["demo agent writer"], syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}, 1, "a process ended: writer: signal: killed"},
	} {
		t.Run(end.name, func(t *testing.T) {
			cmd, dir, said := startDemo(t)
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), "planner#list") { // all agents run
			}
			end.by(t, cmd.Process, childrenOf(t, dir))
			for lines.Scan() { // to its end
			}
			if code := exitOf(cmd.Wait()); code != end.exit || !strings.Contains(said.String(), end.wants) {
				t.Errorf("exit code %d, want %d\n%s", code, end.exit, said)
			}
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory that was asked for is gone")
			}
		})
	}
}

// TestDemoElsewhere: where there is no directory for it, or another demo has it,
// it says so and what to do, and starts nothing.
func TestDemoElsewhere(t *testing.T) {
	t.Parallel()
	binary := program.Arl(t)
	file := filepath.Join(t.TempDir(), "file")
	used := t.TempDir()
	for _, err := range []error{os.WriteFile(file, nil, 0o600), os.Mkdir(filepath.Join(used, "logs"), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		env  string
		args []string
		exit int
	}{
		{"no temporary directory", "TMPDIR=" + filepath.Join(file, "x"), nil, 74},
		{"a file", "", []string{"--dir", file}, 74},
		{"behind a file", "", []string{"--dir", filepath.Join(file, "x")}, 74},
		{"another demo", "", []string{"--dir", used}, 6},
	} {
		cmd := exec.Command(binary, append([]string{"demo"}, c.args...)...)
		cmd.Env = append(os.Environ(), c.env)
		if said, err := cmd.CombinedOutput(); exitOf(err) != c.exit || !strings.Contains(string(said), "pass --dir with") {
			t.Errorf("%s: exit code %d, want %d\n%s", c.name, exitOf(err), c.exit, said)
		}
	}
}
