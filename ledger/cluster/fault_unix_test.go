//go:build unix

package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
)

// TestClusterKillLeader kills whichever node leads, twice. The others go on, the node comes back,
// and nothing acknowledged is lost.
func TestClusterKillLeader(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, "a", "b", "c"), record{}
	nodes := s.three()
	for round := range 2 {
		var leader *process
		for i := range 5 {
			leader = r.submit(t, fmt.Sprintf("before-%d-%d", round, i), nodes...)
		}
		leader.kill()
		rest := others(nodes, leader)
		for i := range 5 {
			r.submit(t, fmt.Sprintf("after-%d-%d", round, i), rest...)
		}
		nodes = slices.Insert(rest, 0, s.start(leader.name))
	}
	r.check(t, nodes...)
	s.end(nodes...)
}

// TestClusterPauseLeader stops the process that leads where it stands, and lets it go on when
// another node leads. It takes nothing more, and follows.
func TestClusterPauseLeader(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, "a", "b", "c"), record{}
	nodes := s.three()
	leader := r.submit(t, "first", nodes...)
	must(t, leader.cmd.Process.Signal(syscall.SIGSTOP))
	rest := others(nodes, leader)
	for i := range 5 {
		r.submit(t, fmt.Sprint("meanwhile-", i), rest...)
	}
	must(t, leader.cmd.Process.Signal(syscall.SIGCONT))
	r.submit(t, "woken", append([]*process{leader}, rest...)...)
	r.check(t, nodes...)
	s.end(nodes...)
}

// TestClusterNoMajority: one node of three registers nothing, and reads go on. When the others are
// back, so is the order.
func TestClusterNoMajority(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, "a", "b", "c"), record{}
	nodes := s.three()
	r.submit(t, "first", nodes...)
	r.check(t, nodes...)
	nodes[1].kill()
	nodes[2].kill()
	if answer := nodes[0].ask("submit alone"); !strings.HasPrefix(answer, "no") {
		t.Errorf("without a majority: %s", answer)
	}
	if answer := nodes[0].ask("at 0"); answer != "first" {
		t.Errorf("a read without a majority: %s", answer)
	}
	nodes[1], nodes[2] = s.start("b"), s.start("c")
	r.submit(t, "alone", nodes...)
	r.check(t, nodes...)
	s.end(nodes...)
}

// TestClusterRestoredEtcd puts older files of etcd back at all nodes. The node that is to lead
// finds that the order has lost batches: it ends, before it signs anything.
func TestClusterRestoredEtcd(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, "a", "b", "c"), record{}
	nodes := s.three()
	r.submit(t, "first", nodes...)
	r.check(t, nodes...)
	s.end(nodes...)
	s.copyDirs(".older", "")
	nodes = s.three()
	r.submit(t, "second", nodes...)
	r.check(t, nodes...)
	s.end(nodes...)
	s.copyDirs("", ".older")
	nodes = s.three()
	var line string
	select {
	case line = <-nodes[0].lines:
	case line = <-nodes[1].lines:
	case line = <-nodes[2].lines:
	}
	if !strings.HasPrefix(line, "fatal") || !strings.Contains(line, "restored from an older copy") {
		t.Errorf("%s", line)
	}
	for _, p := range nodes {
		p.kill()
		found, err := ledger.Check(t.Context(), s.config(p.name).Dir+".db", logConfig(), nil)
		must(t, err)
		if found.Head.Size != uint64(len(r)) {
			t.Errorf("%s has %d entries", p.name, found.Head.Size)
		}
	}
}

// TestClusterDiverged: a node whose rules refuse what the others registered ends,
// and says what differs. The others go on.
func TestClusterDiverged(t *testing.T) { // not parallel: it sets a variable for a process
	s, r := newSite(t, "a", "b", "c"), record{}
	nodes := s.three()
	leader := r.submit(t, "first", nodes...)
	r.check(t, nodes...)
	rest := others(nodes, leader)
	odd := rest[0]
	odd.stop()
	t.Setenv(oddVariable, "second")
	odd = s.start(odd.name)
	t.Setenv(oddVariable, "")
	rest[0] = leader
	r.submit(t, "second", rest...)
	if line := <-odd.lines; !strings.HasPrefix(line, "fatal") || !strings.Contains(line, agreement.ErrDiverged.Error()) || !strings.Contains(line, "entry 1 is refused here") {
		t.Errorf("%s", line)
	}
	odd.kill()
	r.submit(t, "third", rest...)
	r.check(t, rest...)
	s.end(rest...)
}

// flip changes a word in the files of a node that match, wherever it stands.
func (s *site) flip(pattern, word string) {
	s.t.Helper()
	names, err := filepath.Glob(pattern)
	must(s.t, err)
	flipped := 0
	for _, name := range names {
		content, err := os.ReadFile(name)
		must(s.t, err)
		flipped += bytes.Count(content, []byte(word))
		must(s.t, os.WriteFile(name, bytes.ReplaceAll(content, []byte(word), []byte(strings.ToUpper(word))), 0o600))
	}
	if flipped == 0 {
		s.t.Fatalf("%s does not stand in %s", word, pattern)
	}
}

// TestClusterFlippedValue: a batch that was changed in etcd's database ends the node that reads it,
// since the MAC does not fit. A member whose write-ahead log was changed does not start.
func TestClusterFlippedValue(t *testing.T) {
	t.Parallel()
	s, r := newSite(t, "a", "b", "c"), record{}
	nodes := s.three()
	r.submit(t, "first", nodes...)
	r.check(t, nodes...)
	nodes[1].stop() // it lags, so that batches are kept
	nodes[2].stop()
	db := s.config("c").Dir + ".db"
	must(t, os.CopyFS(db+".older", os.DirFS(db)))
	anchor, err := os.ReadFile(db + ".anchor")
	must(t, err)
	nodes[2] = s.start("c")
	r.submit(t, "second", nodes[0], nodes[2])
	r.check(t, nodes[0], nodes[2])
	nodes[0].stop()
	nodes[2].stop()
	must(t, os.RemoveAll(db))
	must(t, os.Rename(db+".older", db))
	must(t, os.WriteFile(db+".anchor", anchor, 0o600))

	s.flip(filepath.Join(s.config("c").Dir, "member", "snap", "db"), "second")
	nodes[0], nodes[2] = s.start("a"), s.start("c")
	if line := <-nodes[2].lines; !strings.HasPrefix(line, "fatal") || !strings.Contains(line, "its MAC does not fit") {
		t.Errorf("a value that was changed: %s", line)
	}
	nodes[2].kill()
	nodes[0].kill()
	s.flip(filepath.Join(s.config("a").Dir, "member", "wal", "*.wal"), "second")
	nodes[0] = s.start("a")
	if line := <-nodes[0].lines; !strings.HasPrefix(line, "fatal") {
		t.Errorf("a write-ahead log that was changed: %s", line)
	}
}
