package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/testdata/budget"
)

// realRuns are the sets of recorded runs, and what the files in them end with.
func realRuns() map[importer.Format][2]string {
	return map[importer.Format][2]string{
		importer.OpenAIChat: {"tau_bench_airline", ".json"},
		importer.Attempts:   {"aider_swe_bench", ".ndjson"},
		importer.ToolBench:  {"toolbench", ".json"},
		importer.Galaxy:     {"galaxy_iwc", ".ga"},
	}
}

// TestImportRealRunsChaos registers the runs of all four sets over HTTP, and with
// ARL_CHAOS again as another instance: more than 10,000 entries. It checks every receipt offline,
// audits the log through its tiles, and computes everything in the stopped
// ledger again.
func TestImportRealRunsChaos(t *testing.T) {
	t.Parallel()
	data := filepath.FromSlash("../../../shared/data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("missing: ../shared/data: the data sets")
	}
	l := startCommandLine(t)
	registered, proven := 0, map[uint64]bool{}
	instances := []string{"", "again"}[:budget.Budget{Short: 1, Usual: 1, Chaos: 2}.Now()]
	times := len(instances)
	for _, instance := range instances {
		for format, set := range realRuns() {
			receipts := filepath.Join(t.TempDir(), "receipts.ndjson")
			args := []string{"entry", "import", "--format", string(format), "--instance", instance, "--out", receipts}
			var report record.ImportReport
			l.json(&report, append(args, filesBelow(t, filepath.Join(data, set[0]), set[1])...)...)
			if report.Registered == 0 || report.Skipped > 0 || report.Known > 0 {
				t.Fatalf("%s: %+v", format, report)
			}
			registered += report.Registered
			var verified verifyReport
			l.json(&verified, "verify", receipts)
			if len(verified.Missing) > 0 {
				t.Fatalf("%s: missing: %v", format, verified.Missing)
			}
			for _, e := range verified.Entries {
				if !e.Signed {
					t.Fatalf("the signature of entry %d was not checked", e.Index)
				}
				proven[e.Index] = true
			}
		}
	}
	if registered < 5_000*times {
		t.Errorf("%d entries registered, want %d", registered, 5_000*times)
	}
	var report record.ImportReport
	chats := filesBelow(t, filepath.Join(data, "tau_bench_airline"), ".json")
	l.json(&report, append([]string{"entry", "import", "--format", string(importer.OpenAIChat)}, chats...)...)
	if report.Registered != 0 || report.Known != 2007+14+89 {
		t.Errorf("a second import: %+v", report)
	}
	var audited, again auditReport
	l.json(&audited, "log", "audit")
	ours := uint64(0) // what the coordinator makes of the signals meanwhile
	for _, kind := range []string{"decision", "record"} {
		ours += audited.Kinds[kind]
		delete(audited.Kinds, kind)
	}
	if ours == 0 {
		t.Error("the coordinator has done nothing")
	}
	want := map[string]uint64{"policy": 1, "agent": 2 + 99, "execution": uint64(times * (5235 + 14)), "checkpoint": uint64(times * 859), "signal": uint64(times * 207)}
	if diff := cmp.Diff(want, audited.Kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	proven[1] = true // the coordinator's enrolment, on which nothing here rests
	if uint64(len(proven)) != audited.Size-ours {
		t.Errorf("%d entries have a receipt that holds, the log has %d and %d of the coordinator", len(proven), audited.Size-ours, ours)
	}
	l.stop()
	var checked fsckReport
	l.json(&checked, "log", "fsck", "--data", l.data)
	l.json(&again, "log", "audit", "--data", l.data)
	if checked.Entries != again.Size || checked.Head.Root != again.Root || again.Size < audited.Size {
		t.Errorf("fsck: %+v, audit: %+v, before %d entries", checked, again, audited.Size)
	}
	t.Logf("%d entries registered, %d in the log", registered, audited.Size)
}

func filesBelow(t *testing.T, dir, extension string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == extension {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s: %v", len(files), dir, err)
	}
	return files
}

// commandLine is a machine with a running ledger.
type commandLine struct {
	t          *testing.T
	home, data string
	server     *exec.Cmd
	stderr     bytes.Buffer // of the server
}

func startCommandLine(t *testing.T, flags ...string) *commandLine {
	t.Helper()
	dir := t.TempDir()
	l := &commandLine{t: t, home: filepath.Join(dir, "home"), data: filepath.Join(dir, "data")}
	l.server = l.command(append([]string{"serve", "--data", l.data, "--listen", "127.0.0.1:0", "--output", "json"}, flags...)...)
	l.server.Stderr = &l.stderr
	stdout, err := l.server.StdoutPipe()
	if err == nil {
		err = l.server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l.server != nil {
			_ = l.server.Process.Kill() // it may have ended by itself
			_ = l.server.Wait()
		}
	})
	if _, err := bufio.NewReader(stdout).ReadBytes('\n'); err != nil {
		t.Fatalf("serve: %v\n%s", err, l.stderr.String())
	}
	return l
}

// itself is the test binary as arl. A fold that commands in the tests keep is of the same program.
const itself = "arl-itself"

func (l *commandLine) command(args ...string) *exec.Cmd {
	cmd := exec.Command(itself, args...)
	cmd.Env = []string{"ARL_HOME=" + l.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	return cmd
}

// json runs a command that must succeed and decodes what it prints.
func (l *commandLine) json(into any, args ...string) {
	l.t.Helper()
	cmd := l.command(append(args, "--output", "json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		l.t.Fatalf("arl %s %s: %v\n%s", args[0], args[1], err, stderr.String())
	}
}

// exits runs a command that must end with an exit code and returns what it says.
func (l *commandLine) exits(want int, args ...string) string {
	l.t.Helper()
	cmd := l.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		l.t.Fatalf("arl %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, want, out)
	}
	return string(out)
}

// readProfile decodes the profile that the first start made.
func (l *commandLine) readProfile(into any) {
	l.t.Helper()
	found, err := filepath.Glob(filepath.Join(l.home, "profiles", "*.json"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d profiles", len(found))
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(found[0])
	}
	if err == nil {
		err = json.Unmarshal(content, into, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// stop ends the server as an operator does.
func (l *commandLine) stop() {
	l.t.Helper()
	err := l.server.Process.Signal(syscall.SIGTERM)
	if err == nil {
		err = l.server.Wait()
	}
	l.server = nil
	if err != nil {
		l.t.Fatalf("stop: %v\n%s", err, l.stderr.String())
	}
}
