// Package program gives the tests of a room the program arl, which the room runs as a process.
//
//	func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/durable"
	"recoveryledger/testdata/needs"
)

// Main builds arl, puts its folder first on the path, runs the tests, and returns their exit code.
// Where the race detector watches the tests, the detector watches arl, too. The temporary directory
// of the tests is removed at the end, since a killed process leaves its files there.
//
// The program is built at one place for all rooms: linking it takes longer than most tests, and the
// go command links nothing that is up to date. The tests have a copy of their own, so that a build
// of other sources changes no program under them.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "arl-test-")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the temporary directory
	if raced {
		err = watched(filepath.Join(dir, "bin"))
	} else {
		err = Build(filepath.Join(dir, "bin"), "")
	}
	err = errors.Join(
		err,
		os.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH")),
		os.Setenv("TMPDIR", dir),
		// A process that the race detector watches would sleep a second at its end.
		os.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=10 "+os.Getenv("GORACE")))
	if err != nil {
		return failed(err)
	}
	return m.Run()
}

// asksOnce are the commands that ask and print the answer, as a shell tells them apart. Their
// goroutines are those of the client and of an audit, which the detector watches in the tests of
// these. A watched process takes several times as long to start, and the tests start hundreds.
const asksOnce = `"agent enrol" | "agent history" | "agent list" | "agent revoke" | "cluster lead" | ` +
	`"cluster status" | "cluster token" | "entry get" | "entry list" | "entry submit" | ` +
	`"escalation acknowledge" | "escalation list" | "escalation resolve" | "incident approve" | ` +
	`"incident bundle" | "incident deny" | "incident list" | "incident override" | "incident preview" | ` +
	`"incident show" | "key generate" | "key show" | "log head" | "log proof" | "policy apply" | ` +
	`"policy lint" | "policy show" | "profile list" | "root show" | "signal submit" | "task cancel" | ` +
	`"task create" | "task list" | "task reassign" | "task show" | "verify "*`

// watched puts arl into a folder that it makes. The race detector watches the program, unless the
// command asks once.
func watched(dir string) error {
	at := func(name string) string { return filepath.Join(dir, name, "arl") }
	if err := errors.Join(os.Mkdir(dir, 0o750), build(filepath.Dir(at("watched")), "", true), build(filepath.Dir(at("plain")), "", false)); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$1 $2\" in %s) exec %s \"$@\" ;; esac\nexec %s \"$@\"\n", asksOnce, at("plain"), at("watched"))
	return os.WriteFile(filepath.Join(dir, "arl"), []byte(script), 0o700)
}

// compilers is the variable in which make race says with what options the packages of the tests are
// compiled: with others, go build would compile every package once more.
const compilers = "RACE_FLAGS"

// Build puts arl into a folder that it makes. With a version it is another program of the same
// tree, which says that version, and knows a format of the batches of a cluster that arl does not.
func Build(dir, version string) error { return build(dir, version, raced) }

func build(dir, version string, race bool) (err error) {
	shared, flags := filepath.Join(needs.Root(), "bin", "test"), "-s -w" // without symbols it is linked sooner
	if version != "" {
		shared, flags = shared+"-"+version, flags+" -X main.version="+version+" -X recoveryledger/ledger/agreement.newest=2"
	}
	command := needs.Go(context.Background(), "build", "-ldflags", flags, "-o", "arl")
	if race {
		shared += "-race"
		command.Args = append(command.Args, append([]string{"-race"}, strings.Fields(os.Getenv(compilers))...)...)
		command.Env = append(command.Env, "CGO_ENABLED=1")
	}
	if err := errors.Join(os.MkdirAll(shared, 0o750), os.Mkdir(dir, 0o750)); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(shared, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which gives the lock back
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C { // while another room builds
		mine, err := durable.Lock(lock)
		if err != nil {
			return err
		}
		if mine {
			break
		}
	}
	command.Args = append(command.Args, filepath.Join(needs.Root(), "cmd", "arl"))
	command.Dir = shared
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build arl: %w\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(shared, "arl"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "arl"), content, 0o700)
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Arl returns the path of the program.
func Arl(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("arl")
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
