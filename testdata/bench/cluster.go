package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/ledger/keys"
)

const (
	nodes      = 3
	submitters = 1024
	pinnedRate = 30_000 // entries a second that are signed beforehand where a node has half of the processors
	oneRate    = 4_000  // the same for one submitter
)

// layout says on which processors the processes run.
type layout struct {
	first, others []int // of the single ledger and of the leader; of the followers
}

// name is the layout as the rows have it.
func (l layout) name() string {
	return fmt.Sprintf("leader on processors %v, followers on %v", l.first, l.others)
}

// layouts returns that of a machine for each node, as far as one machine goes, and that of one
// machine for all of them.
func layouts() (apart, shared layout, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return apart, shared, fmt.Errorf("read the processors of this process: %w", err)
	}
	var all []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	if len(all) < 2 {
		return apart, shared, errors.New("the leader and the followers need a processor each, and there is one")
	}
	return layout{all[:len(all)/2], all[len(all)/2:]}, layout{all, all}, nil
}

// pinned starts a process on some processors. It inherits them from the thread that starts it.
func pinned(cmd *exec.Cmd, processors []int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, p := range processors {
		set.Set(p)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to processors %v: %w", processors, err)
	}
	return errors.Join(cmd.Start(), unix.SchedSetaffinity(0, &before))
}

// process is a worker in a process of its own.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	to  *json.Encoder
}

func (b *bench) startNode(ctx context.Context, dir string, processors []int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-node", dir}
	if b.profile != "" {
		args = append(args, "-cpuprofile", b.profile+"."+filepath.Base(dir))
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out, p.to = json.NewDecoder(out), json.NewEncoder(p.in)
	return p, pinned(p.cmd, processors)
}

func (p *process) do(o order) (r report, err error) {
	if err := p.to.Encode(o); err != nil {
		return r, err
	}
	if err := p.out.Decode(&r); err != nil {
		return r, fmt.Errorf("%s: the process has ended: %w", o.Do, err)
	}
	if r.Err != "" {
		err = errors.New(r.Err)
	}
	if err != nil && (o.Do == "load" || o.Do == "enrol") && !r.Leads {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return r, err
}

func (p *process) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// processes are a single ledger, or the nodes of a cluster of which the first one leads.
type processes []*process

// startSingle starts a single ledger.
func (b *bench) startSingle(ctx context.Context, dir string, l layout) (processes, error) {
	if err := makeKeys(dir); err != nil {
		return nil, err
	}
	p, err := b.startNode(ctx, dir, l.first)
	return processes{p}, err
}

func makeKeys(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o700); err != nil {
		return err
	}
	_, err := keys.GenerateLedger(filepath.Join(dir, "keys"), origin, nil)
	return err
}

// startCluster starts the nodes of a new cluster, and waits until the first one leads.
func (b *bench) startCluster(ctx context.Context, dir string, l layout) (processes, error) {
	if err := makeSites(dir); err != nil {
		return nil, err
	}
	var all processes
	for i := range nodes {
		at := l.others
		if i == 0 {
			at = l.first
		}
		p, err := b.startNode(ctx, nodeDir(dir, i), at)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, all.lead()
}

func nodeDir(dir string, i int) string { return filepath.Join(dir, nodeName(i)) }

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// makeSites makes the directories of nodes that begin together, with the keys of one ledger.
func makeSites(dir string) error {
	members, at := map[string]string{}, make([]site.Addresses, nodes)
	for i := range nodes {
		for _, address := range []*string{&at[i].Etcd, &at[i].Peer} {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			*address = listener.Addr().String()
			if err := listener.Close(); err != nil {
				return err
			}
		}
		at[i].EtcdListen, at[i].PeerListen = at[i].Etcd, at[i].Peer
		members[nodeName(i)] = at[i].Etcd
	}
	first, err := site.Found(nodeDir(dir, 0), origin, nodeName(0), at[0])
	if err != nil {
		return err
	}
	first.Members = members
	if err := errors.Join(first.Save(), makeKeys(nodeDir(dir, 0))); err != nil {
		return err
	}
	for i := 1; i < nodes; i++ {
		s := &site.Site{Dir: site.Path(nodeDir(dir, i)), Name: nodeName(i), Addresses: at[i]}
		request, err := s.Request()
		if err != nil {
			return err
		}
		admitted, err := first.Admits(nodeName(i), request, members, nil)
		if err != nil {
			return err
		}
		if err := s.Take(admitted); err != nil {
			return err
		}
		if err := copyKeys(nodeDir(dir, 0), nodeDir(dir, i)); err != nil {
			return err
		}
	}
	return nil
}

// copyKeys copies the keys of a ledger from one data directory to another.
func copyKeys(from, to string) error {
	files, err := peer.ReadKeys(filepath.Join(from, "keys"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, "keys"), 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(to, "keys", name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// lead waits until the first node leads. Where another one was elected, it hands over.
func (all processes) lead() error {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		for i, p := range all {
			r, err := p.do(order{Do: "usage"})
			if err != nil {
				return err
			}
			if r.Leads && i == 0 {
				return nil
			}
			if r.Leads {
				if _, err := p.do(order{Do: "lead", To: nodeName(0)}); err != nil {
					fmt.Fprintln(os.Stderr, "not yet:", err)
				}
			}
		}
	}
	return errors.New("the first node does not lead within a minute")
}

// measured is what a single ledger or a cluster came to.
type measured struct {
	rate, p50 float64
	cpu       []float64 // µs an entry, of each process
	lost      int       // turns before, whose leader did not stay the same
}

// measure registers entries at the first process: with one submitter, then with many.
func (all processes) measure(b *bench, rate int) (m measured, err error) {
	first := all[0]
	for _, o := range []order{
		{Do: "enrol"},
		{Do: "sign", Entries: int(b.time.Seconds() * oneRate)}, {Do: "load", Submitters: 1, Time: b.time / 2},
		{Do: "sign", Entries: int(b.time.Seconds()) * rate},
	} {
		r, err := first.do(o)
		if err != nil {
			return m, err
		}
		m.p50 = max(m.p50, r.P50)
	}
	before, err := all.usage()
	if err != nil {
		return m, err
	}
	r, err := first.do(order{Do: "load", Submitters: submitters, Time: b.time})
	if err != nil {
		return m, err
	}
	after, err := all.usage()
	if err != nil {
		return m, err
	}
	for i := range all {
		m.cpu = append(m.cpu, float64((after[i]-before[i]).Nanoseconds())/1e3/float64(r.Done))
	}
	m.rate = float64(r.Done) / r.Elapsed.Seconds()
	return m, nil
}

// usage returns the processor time of each process, once all have the same log.
func (all processes) usage() (times []time.Duration, err error) {
	size := uint64(0)
	for _, p := range all {
		r, err := p.do(order{Do: "reach", Size: size})
		if err != nil {
			return nil, err
		}
		size = r.Size
		times = append(times, r.CPU)
	}
	return times, nil
}

func (all processes) stop() (err error) {
	for _, p := range all {
		err = errors.Join(err, p.stop())
	}
	return err
}

// clusterRate compares a cluster of three processes with a single ledger, in turn: with a processor
// for the leader and one for the followers, and with all of them on the same processors.
func clusterRate(ctx context.Context, b *bench) error {
	apart, shared, err := layouts()
	if err != nil {
		return err
	}
	for _, l := range []struct {
		layout
		name   string
		rate   int
		target float64
	}{
		{apart, "a cluster of three, a machine each, 1024 submitters", pinnedRate, 0.7},
		{shared, "a cluster of three on the same processors, 1024 submitters", poolRate, 0.45},
	} {
		var sides [2][]measured
		if _, _, err := b.turns(func(dir string) (float64, error) {
			return turn(b, dir, func(dir string) (processes, error) { return b.startCluster(ctx, dir, l.layout) }, l.rate, &sides[0])
		}, func(dir string) (float64, error) {
			return turn(b, dir, func(dir string) (processes, error) { return b.startSingle(ctx, filepath.Join(dir, "single"), l.layout) }, l.rate, &sides[1])
		}); err != nil {
			return err
		}
		b.print(compare(l.name, l.layout, l.target, sides))
		if l.target < 0.5 {
			b.print(compareOne(l.layout, sides))
		}
	}
	return nil
}

// errLost says that the first node of a cluster did not lead to the end: a process that gets no
// processor for a second sends no heartbeat.
var errLost = errors.New("the first node does not lead any more")

// attemptsMax is how often a turn is tried whose leader does not stay the same.
const attemptsMax = 5

// turn starts the processes and measures them; again, where the leader did not stay the same.
func turn(b *bench, dir string, start func(dir string) (processes, error), rate int, into *[]measured) (float64, error) {
	for attempt := range attemptsMax {
		all, err := start(filepath.Join(dir, fmt.Sprint(attempt)))
		var m measured
		if err == nil {
			m, err = all.measure(b, rate)
		}
		lost := errors.Is(err, errLost)
		if err = errors.Join(err, all.stop()); err == nil {
			m.lost = attempt
			*into = append(*into, m)
			return m.rate, nil
		}
		if !lost {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w, %d times", errLost, attemptsMax)
}

// compare is the row of the rates: the median of the ratios of each turn.
func compare(name string, l layout, target float64, sides [2][]measured) row {
	var ratios []float64
	for i := range sides[0] {
		ratios = append(ratios, sides[0][i].rate/sides[1][i].rate)
	}
	of := func(side int, get func(measured) float64) float64 {
		var all []float64
		for _, m := range sides[side] {
			all = append(all, get(m))
		}
		return median(all)
	}
	lost := 0
	for _, m := range sides[0] {
		lost += m.lost
	}
	rate := func(m measured) float64 { return m.rate }
	cpu := func(i int) func(measured) float64 { return func(m measured) float64 { return m.cpu[i] } }
	return row{name: name, value: median(ratios), unit: "× one node", target: target,
		detail: fmt.Sprintf("%.0f and %.0f entries/s; µs of processor time an entry: leader %.0f, followers %.0f and %.0f, one node %.0f; %s, one "+
			"disk; ratios %.2f; turns again, since the lead was lost: %d",
			of(0, rate), of(1, rate), of(0, cpu(0)), of(0, cpu(1)), of(0, cpu(2)), of(1, cpu(0)), l.name(), ratios, lost)}
}

// compareOne is the row of one submitter.
func compareOne(l layout, sides [2][]measured) row {
	var ratios, mine, theirs []float64
	for i := range sides[0] {
		mine, theirs = append(mine, sides[0][i].p50), append(theirs, sides[1][i].p50)
		ratios = append(ratios, mine[i]/theirs[i])
	}
	return row{name: "one submitter of a cluster of three, time to receipt, p50", value: median(ratios), unit: "× one node", target: 4, atMost: true,
		detail: fmt.Sprintf("%.0f and %.0f µs; %s, one disk", median(mine), median(theirs), l.name())}
}
