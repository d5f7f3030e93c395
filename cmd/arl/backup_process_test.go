//go:build unix

package main_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"recoveryledger/testdata/budget"
)

// TestChaosBackupDrill backs up a ledger under load. The backups are killed at random, and so is
// the ledger. The last backup is whole. Then the disk is lost, and the ledger is restored by
// restores that are killed at random, too: everything acknowledged is there, under the receipts of
// then. Last, a backup that is older than what was signed is refused.
func TestChaosBackupDrill(t *testing.T) {
	t.Parallel()
	seed := budget.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	m := newMachine(t)
	m.start()
	m.enrol()
	dir := filepath.Join(filepath.Dir(m.data), "backup")
	args := []string{"backup", dir, "--data", m.data}
	var all []acknowledged
	var unanswered [][]byte
	cut := 0
	for range (budget.Budget{Short: 2, Usual: 4, Chaos: 40}).Now() {
		acks, open := m.loadWith(300+rng.IntN(300), func() {
			if m.killed(rng, 400*time.Millisecond, args...) {
				cut++
			}
		})
		all, unanswered = append(all, acks...), append(unanswered, open...)
		m.start()
	}
	m.must(os.RemoveAll(dir + ".cut"))
	for begun := 0; begun == 0; { // one is killed for certain, when it has begun to write
		if m.killedWith(dir+".cut", "backup", dir+".cut", "--data", m.data) {
			begun++
		}
		m.must(os.RemoveAll(dir + ".cut"))
	}
	m.arl(args...)
	m.kill()

	kills := 0
	restores := []string{"restore", dir, "--data", m.data}
	m.must(os.Rename(m.data, m.data+".lost"))
	for !m.killedWith(m.data+".restoring", restores...) { // it was faster
		m.must(os.RemoveAll(m.data))
	}
	for m.killed(rng, time.Second, restores...) {
		kills++
		if _, err := os.Stat(m.data); err == nil {
			break // killed behind its last step, which gives the directory its name
		}
		if kills > 8 {
			m.arl(restores...)
			break
		}
	}
	t.Logf("%d backups and %d restores were killed", cut, kills)
	m.arl("log", "fsck", "--data", m.data)
	m.start()
	m.checkAcknowledged(all, rng)
	m.resubmit(unanswered)
	m.checkEverything(all)
	if !strings.Contains(m.stderr.String(), "this ledger was restored from a backup") {
		t.Errorf("the process log does not say it: %s", m.stderr.String())
	}

	more, _ := m.loadAndKill(20)
	m.must(os.RemoveAll(m.data))
	refused, said := m.command(nil, restores...)
	if exit, ok := errors.AsType[*exec.ExitError](refused.Run()); !ok || exit.ExitCode() != 10 {
		t.Errorf("%d entries were acknowledged after the backup: %v\n%s", len(more), refused.ProcessState, said)
	}
	if _, err := os.Stat(m.data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a ledger is there: %v", err)
	}
}

// loadWith is loadAndKill, while a function is called again and again.
func (m *machine) loadWith(wanted int, beside func()) (acks []acknowledged, unanswered [][]byte) {
	m.t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				beside()
			}
		}
	})
	acks, unanswered = m.loadAndKill(wanted)
	close(done)
	group.Wait()
	return acks, unanswered
}

// killedWith runs a command, kills it once a file is there, and reports whether the command had not
// ended by itself.
func (m *machine) killedWith(path string, args ...string) bool {
	m.t.Helper()
	cmd, said := m.command(nil, args...)
	m.must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				m.t.Fatalf("arl %s: %v\n%s", strings.Join(args, " "), err, said)
			}
			return false
		default:
		}
		if _, err := os.Stat(path); err == nil {
			_ = cmd.Process.Kill() // it may have ended by itself
			err := <-ended
			exit, ok := errors.AsType[*exec.ExitError](err)
			return ok && exit.ExitCode() == -1
		}
	}
}

// killed runs a command, kills it within a time, and reports whether it was killed. A command that
// reaches no ledger ends with the exit code 9.
func (m *machine) killed(rng *rand.Rand, within time.Duration, args ...string) bool {
	cmd, said := m.command(nil, args...)
	if err := cmd.Start(); err != nil {
		m.t.Error(err)
		return false
	}
	kill := time.AfterFunc(time.Duration(rng.Int64N(int64(within))), func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil || ok && exit.ExitCode() == 9:
		return false
	case !ok || exit.ExitCode() != -1:
		m.t.Errorf("arl %s: %v\n%s", strings.Join(args, " "), err, said)
		return false
	}
	return true
}
