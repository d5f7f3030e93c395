package cell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"recoveryledger/api"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
)

// Every node of the campaign has a file system of its own, and says that it is full below the
// reserve.
const (
	campaignDisk    = "1G" // of which a node takes what it writes
	campaignReserve = 32 << 20
	campaignQuota   = 8 << 20 // of etcd
)

const saidMost = 4000 // bytes of what a node said before its test failed

// tellLast logs what nodes have said last, if the test fails.
func tellLast(t *testing.T, nodes ...*node) {
	t.Helper()
	t.Cleanup(func() {
		for _, n := range nodes {
			if said := n.said.String(); t.Failed() {
				t.Logf("%s has said last: %s", n.data, said[max(0, len(said)-saidMost):])
			}
		}
	})
}

// The ports of a node, at an address of its own. Behind them are proxies for the other nodes.
const (
	clientPort, peerPort, etcdPort = "7001", "7002", "7003"
)

// campaign is a crowd of clients whose nodes suffer one fault after another.
type campaign struct {
	*crowd
	*links
	t      *testing.T
	random *rand.Rand
	disks  bool // whether each node has a disk of its own

	skewed string      // program whose clock a file moves; empty: there is none
	agent  *rolledBack // nil: nothing is rolled back
}

// place returns the addresses of a node: its own, and the one at which the others find it.
func (c *campaign) place(n *node) (own, shown string) {
	base := hostOf(strings.TrimPrefix(n.url, "http://"))
	return base, base[:strings.LastIndex(base, ".")] + "." + fmt.Sprint(128+slices.Index(c.nodes, n))
}

// starting are the flags with which a node begins, or joins by a token.
func (c *campaign) starting(n *node, token string) []string {
	own, shown := c.place(n)
	args := []string{"--peer-listen", own + ":" + peerPort, "--peer-advertise", shown + ":" + peerPort, "--etcd-listen", own + ":" + etcdPort}
	if token != "" {
		args = append(args, "--join", token)
	}
	return args
}

// start starts a node, and waits until it serves. The error says that the node has ended.
func (c *campaign) start(n *node, args ...string) error { return c.started(n, args...)() }

// started starts a node, and returns a function that waits until it serves.
func (c *campaign) started(n *node, args ...string) (serves func() error) {
	own, _ := c.place(n)
	n.cmd = c.m.Command(append([]string{"serve", "--output", "json", "--data", n.data, "--listen", own + ":" + clientPort, "--cluster",
		"--reserve", fmt.Sprint(campaignReserve), "--etcd-quota", fmt.Sprint(campaignQuota)}, args...)...)
	if c.skewed != "" {
		n.cmd.Path = c.skewed
		n.cmd.Env = append(n.cmd.Env, clockVariable+"="+c.m.Path(n.data+".clock"))
	}
	n.said = &lines{}
	n.cmd.Stderr = n.said
	out, err := n.cmd.StdoutPipe()
	must(c.t, err)
	must(c.t, n.cmd.Start())
	c.runs(n.data, n.cmd.Process.Pid)
	c.t.Cleanup(n.kill)
	return func() error {
		if err := json.NewDecoder(out).Decode(new(struct{})); err != nil {
			_ = n.cmd.Wait() // it has ended
			return fmt.Errorf("%s has ended: %v\n%s", n.data, n.cmd.ProcessState, n.said)
		}
		return nil
	}
}

// begun starts a node that must start.
func (c *campaign) begun(n *node, args ...string) {
	c.t.Helper()
	must(c.t, c.start(n, args...))
}

// newCampaign starts three nodes behind proxies, and an agent.
func newCampaign(t *testing.T) *campaign {
	t.Helper()
	c := newLinked(t)
	if budget.Large() && slices.ContainsFunc(chosen(), func(k kind) bool { return k.name == wrongClock }) { // it takes a while to build
		c.skewed = buildSkewed(t)
	}
	for i, n := range c.nodes {
		c.disks = c.disk(n.data) && (i == 0 || c.disks)
	}
	t.Run("disks", func(t *testing.T) { // the other faults need no disks
		if !c.disks {
			needs.Missing(t, "mkfs.ext4 and the right to mount", "install the package e2fsprogs, and run the test as root", "no disk is slow or full")
		}
	})
	c.founds()
	c.random = rand.New(rand.NewPCG(c.seed, 2))
	c.agent = &rolledBack{client: c.client(c.urls(0))}
	return c
}

// disk gives a node a file system in a file, where that can be mounted.
func (c *campaign) disk(data string) bool {
	dir, image := c.m.Path(data), c.m.Path(data+".img")
	must(c.t, os.Mkdir(dir, 0o700))
	for _, command := range [][]string{{"mkfs.ext4", "-q", image, campaignDisk}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			c.t.Logf("%q: %v: %s", command, err, out)
			return false
		}
	}
	c.t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			c.t.Errorf("umount: %v: %s", err, out)
		}
	})
	return true
}

// others are the nodes but one.
func (c *campaign) others(one *node) (rest []*node) {
	for _, n := range c.nodes {
		if n != one {
			rest = append(rest, n)
		}
	}
	return rest
}

// victim is the node that orders, or often another one.
func (c *campaign) victim() *node {
	return c.nodes[(c.leader()+c.random.IntN(2)*(1+c.random.IntN(2)))%3]
}

// hang stops the processes of nodes where they stand for a while.
func (c *campaign) hang(nodes ...*node) {
	for _, n := range nodes {
		must(c.t, n.cmd.Process.Signal(syscall.SIGSTOP))
	}
	time.Sleep(c.while()) // that is the fault
	for _, n := range nodes {
		must(c.t, n.cmd.Process.Signal(syscall.SIGCONT))
	}
}

// while is how long a fault lasts: sometimes longer than an election takes.
func (c *campaign) while() time.Duration {
	most := 1000
	if budget.Large() {
		most = 2700
	}
	return time.Duration(300+c.random.IntN(most)) * time.Millisecond
}

// cutOff cuts pairs of nodes off from one another for a while.
func (c *campaign) cutOff(how cut, one *node, from ...*node) {
	for _, n := range from {
		c.set(one.data, n.data, how)
	}
	time.Sleep(c.while()) // that is the fault
	for _, n := range from {
		c.set(one.data, n.data, whole)
	}
}

// The requests of Linux that freeze a file system, and let it go on.
const (
	freezeRequest = 0xC0045877 // FIFREEZE
	thawRequest   = 0xC0045878 // FITHAW
)

// freeze has every write to the disk of a node wait, over and over, for up to a third of a second.
func (c *campaign) freeze(n *node) {
	dir, err := os.Open(c.m.Path(n.data))
	must(c.t, err)
	defer dir.Close()
	for until := time.Now().Add(c.while()); time.Now().Before(until); {
		for _, step := range []struct {
			request uint
			most    int
		}{{freezeRequest, 300}, {thawRequest, 50}} {
			must(c.t, unix.IoctlSetInt(int(dir.Fd()), step.request, 0))
			time.Sleep(time.Duration(c.random.IntN(step.most)) * time.Millisecond) // that is the fault
		}
	}
}

// fills leaves half of the reserve of a node's disk, until the node has said that it is full.
func (c *campaign) fills(n *node) {
	junk := c.m.Path(n.data + "/junk")
	file, err := os.Create(junk)
	must(c.t, err)
	var at unix.Statfs_t
	must(c.t, unix.Fstatfs(int(file.Fd()), &at))
	must(c.t, unix.Fallocate(int(file.Fd()), 0, 0, int64(at.Bavail)*at.Bsize-campaignReserve/2))
	n.answers(api.PathReady, 507, "the reserve is")
	must(c.t, errors.Join(file.Close(), os.Remove(junk)))
}

// patterns are the files of a node that take damage.
var patterns = []string{"db/*.sst", "db/*.log", "cluster/etcd/member/wal/*.wal", "cluster/etcd/member/snap/db"}

// goesOn is what is said of a node that takes no notice of a fault.
const goesOn = "it goes on"

// damages changes some bytes of a file of a node that was killed. The node goes on with what it
// needs, or ends, and says why: then it joins anew.
func (c *campaign) damages(n *node) string {
	n.kill()
	pattern := patterns[c.random.IntN(len(patterns))]
	files, err := filepath.Glob(c.m.Path(n.data + "/" + pattern))
	must(c.t, err)
	if len(files) == 0 {
		return pattern + ": there is none; " + c.revive(n)
	}
	file, err := os.OpenFile(files[c.random.IntN(len(files))], os.O_RDWR, 0)
	must(c.t, err)
	defer file.Close()
	info, err := file.Stat()
	must(c.t, err)
	bytes := make([]byte, 16)
	for range 1 + info.Size()/(64<<10) { // often where something stands
		place := c.random.Int64N(max(1, info.Size()))
		count, _ := file.ReadAt(bytes, place) // fewer at its end
		for i := range bytes[:count] {
			bytes[i] ^= byte(1 + c.random.IntN(255))
		}
		_, err := file.WriteAt(bytes[:count], place)
		must(c.t, err)
	}
	said := c.revive(n)
	if said == goesOn && strings.HasPrefix(pattern, "db/") {
		c.rejoin(n) // who copies its log later is refused
		said += ", and is replaced"
	}
	return pattern + ": " + said
}

// older keeps a copy of a node's log and anchor, and puts them back later, as from a backup.
func (c *campaign) older(n *node) string {
	n.kill()
	kept := c.m.Path(n.data + ".kept")
	must(c.t, os.RemoveAll(kept))
	must(c.t, os.MkdirAll(kept, 0o700))
	names := []string{"/db", ".anchor"}
	for i, name := range names {
		must(c.t, exec.Command("cp", "-a", c.m.Path(n.data+name), kept+"/"+strconv.Itoa(i)).Run())
	}
	said := c.revive(n)
	c.settle()
	n.kill()
	for i, name := range names {
		must(c.t, os.RemoveAll(c.m.Path(n.data+name)))
		must(c.t, exec.Command("cp", "-a", kept+"/"+strconv.Itoa(i), c.m.Path(n.data+name)).Run())
	}
	return said + ", " + c.revive(n)
}

// revive starts a node that may end instead, because of what it finds on its disk. Then the cluster
// removes it, and it joins anew.
func (c *campaign) revive(n *node) string {
	err := c.start(n)
	for began := time.Now(); err == nil && time.Since(began) < time.Minute; time.Sleep(askEvery) {
		if status, _ := n.get(api.PathReady); status == 200 {
			return goesOn
		}
		if n.ended() {
			err = fmt.Errorf("it has ended: %s", n.said)
		}
	}
	if err == nil {
		c.t.Fatalf("%s neither serves nor ends within a minute\n%s", n.data, n.said)
	}
	c.t.Logf("%s ends: %.600v", n.data, err)
	c.rejoin(n)
	return "it joins anew"
}

// ended reports whether the process of a node is no more.
func (n *node) ended() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// rejoin removes a node from the cluster, and has it join with an empty directory.
func (c *campaign) rejoin(n *node) {
	by := c.removes(n)
	c.joins(n, by)
	by.voters(3)
}

// removes has another node remove one, which ends.
func (c *campaign) removes(n *node) (by *node) {
	by = c.others(n)[0]
	name := c.name(n, by)
	for began := time.Now(); ; { // while another node comes to lead
		out, err := c.m.Command("cluster", "remove", name, "--data", by.data).CombinedOutput()
		if err == nil {
			break
		}
		if time.Since(began) > time.Minute {
			c.t.Fatalf("%s is not removed: %s", name, out)
		}
	}
	n.kill()
	return by
}

// joins has a node that does not run join with an empty directory.
func (c *campaign) joins(n, by *node) {
	entries, err := os.ReadDir(c.m.Path(n.data))
	must(c.t, err)
	for _, one := range entries {
		if one.Name() != "lost+found" {
			must(c.t, os.RemoveAll(c.m.Path(n.data+"/"+one.Name())))
		}
	}
	must(c.t, os.RemoveAll(c.m.Path(n.data+".anchor")))
	c.begun(n, c.starting(n, c.m.token(by.data))...)
}

// name is what the cluster calls a node.
func (c *campaign) name(n, by *node) string {
	_, shown := c.place(n)
	var name string
	by.until("a member", func(all map[string]member, _ string) bool {
		for _, one := range all {
			if strings.HasPrefix(one.Peer, shown+":") {
				name = one.Name
			}
		}
		return name != ""
	})
	return name
}

func hasDisks(c *campaign) bool { return c.disks }

// large is for faults that take long, and have tests of their own with the other budgets.
func large(*campaign) bool { return budget.Large() }

// kind is a fault. It returns when the cause is gone, and says what became of it.
type kind struct {
	name string
	can  func(c *campaign) bool // nil: always
	hit  func(c *campaign) string
}

const wrongClock = "a clock is wrong"

var kinds = []kind{
	{"a node is killed", nil, func(c *campaign) string { n := c.victim(); n.kill(); c.begun(n); return "" }},
	{"a node hangs", nil, func(c *campaign) string { c.hang(c.victim()); return "" }},
	{"a node is cut off", nil, func(c *campaign) string { n := c.victim(); c.cutOff(dropped, n, c.others(n)...); return "" }},
	{"all nodes are killed", nil, func(c *campaign) string {
		for _, n := range c.nodes {
			n.kill()
		}
		started := make(chan error, len(c.nodes))
		for _, n := range c.nodes { // each waits for a majority
			go func() { started <- c.start(n) }()
		}
		for range c.nodes {
			must(c.t, <-started)
		}
		return ""
	}},
	{"the leader hears nobody", nil, func(c *campaign) string { n := c.nodes[c.leader()]; c.cutOff(stalled, n, c.others(n)...); return "" }},
	{"two nodes hear the third one alone", nil, func(c *campaign) string { n := c.victim(); c.cutOff(dropped, n, c.others(n)[0]); return "" }},
	{"all nodes hang", nil, func(c *campaign) string { c.hang(c.nodes...); return "" }},
	{"a disk is slow", hasDisks, func(c *campaign) string { c.freeze(c.victim()); return "" }},
	{"a disk is full", hasDisks, func(c *campaign) string { c.fills(c.victim()); return "" }},
	{"a file is damaged", nil, func(c *campaign) string { return c.damages(c.victim()) }},
	{"a log is restored from an older copy", nil, func(c *campaign) string { return c.older(c.victim()) }},
	{wrongClock, func(c *campaign) bool { return c.skewed != "" }, func(c *campaign) string { return c.misleads(c.victim()) }},
	{"etcd is full", large, func(c *campaign) string { c.floods(c.victim()); return "" }},
	{"the majority is lost for good", large, func(c *campaign) string { c.loses(); return "" }},
	{"a node is replaced", nil, func(c *campaign) string { c.rejoin(c.victim()); return "" }},
}

// chosen are the kinds of faults of this run.
func chosen() []kind {
	only, given := os.LookupEnv("FAULT")
	if !given {
		return kinds
	}
	names := strings.Split(only, ",")
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return !slices.Contains(names, k.name) })
}

// TestClusterChaos has three nodes suffer one fault after another, while clients submit, read and
// follow. Behind each fault, with nothing under way: nothing acknowledged is lost or there twice,
// all nodes have the same log, the time of registration has not fallen, all signed tree heads of a
// size that anybody was shown have one root, and what clients saw is linearizable. The client
// verifies every receipt. An agent's effects are rolled back meanwhile: every incident ends, and
// each effect is undone once. FAULTS says how many faults there are, and FAULT names
// the only kinds, with commas between them.
func TestClusterChaos(t *testing.T) {
	kinds := chosen()
	faults := faultsOf(t, budget.Budget{Short: 4, Usual: len(kinds), Chaos: 1000})
	c := newCampaign(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	var writers, others sync.WaitGroup
	for id := range writersCount {
		writers.Go(func() { c.submits(ctx, id) })
	}
	for i, n := range c.nodes {
		others.Go(func() { c.reads(ctx, writersCount+i, n) })
	}
	others.Go(func() { c.follows(t.Context(), over, c.base, 1) })
	c.settle()
	c.agent.listens(c)
	done := map[string]int{}
	for i := range faults {
		kind := kinds[i%len(kinds)]
		if i >= len(kinds) {
			kind = kinds[c.random.IntN(len(kinds))]
		}
		if kind.can != nil && !kind.can(c) {
			continue
		}
		if every := max(incidentEvery, (faults+incidentsMost-1)/incidentsMost); i%every == 0 {
			c.agent.reports(c, fmt.Sprint("effect-", i))
		}
		said := kind.hit(c)
		t.Logf("fault %d: %s %s", i, kind.name, said)
		c.settle()
		c.agent.ends(c)
		c.verify()
		done[kind.name+" "+said]++
	}
	cancel()
	writers.Wait()
	close(over)
	c.closes()
	others.Wait()
	c.verify()
	c.agent.decidedOnce(c)
	hits := 0
	for _, n := range done {
		hits += n
	}
	t.Logf("%d heads of %d faults, of %d asked: %v", len(c.roots), hits, faults, done)
}

// verify checks what the clients have heard since the last time.
func (c *campaign) verify() {
	c.t.Helper()
	c.still.Lock()
	defer c.still.Unlock()
	c.crowd.mu.Lock()
	defer c.crowd.mu.Unlock()
	c.check(c.t)
	c.forget()
}
