//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"recoveryledger/testdata/program"
)

// Several first starts on one directory at once: one makes the ledger, the
// others say that it is in use, in words of ours.
func TestFirstStartsAtOnce(t *testing.T) {
	t.Parallel()
	binary := program.Arl(t)
	for range 3 {
		dir := t.TempDir()
		type start struct {
			process *exec.Cmd
			stderr  bytes.Buffer
			takes   bool // entries
		}
		starts, ready := make([]start, 6), make(chan *start)
		for i := range starts {
			s := &starts[i]
			s.process = exec.Command(binary, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--output", "json")
			s.process.Env = append(os.Environ(), "ARL_HOME="+filepath.Join(dir, "home"))
			s.process.Stderr = &s.stderr
			stdout, err := s.process.StdoutPipe()
			if err = errors.Join(err, s.process.Start()); err != nil {
				t.Fatal(err)
			}
			go func() {
				line, _ := bufio.NewReader(stdout).ReadBytes('\n') // nothing, if it has ended
				s.takes = len(line) > 0
				ready <- s
			}()
		}
		won := 0
		for range starts {
			if s := <-ready; s.takes {
				won++
			}
		}
		for i := range starts { // now that all others have given up
			s := &starts[i]
			if s.takes {
				if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
			}
			err := s.process.Wait()
			exit, _ := errors.AsType[*exec.ExitError](err)
			said := s.stderr.String()
			switch {
			case s.takes && err != nil:
				t.Errorf("the one that started: %v\n%s", err, said)
			case !s.takes && (exit == nil || exit.ExitCode() != 6 || !strings.Contains(said, "the directory is in use") || strings.Contains(said, "/.")):
				t.Errorf("another: %v\n%s", err, said)
			}
		}
		if won != 1 {
			t.Fatalf("%d starts take entries", won)
		}
	}
}
