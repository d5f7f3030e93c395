package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// poolRate is how many entries a second are signed beforehand for a run; no
// machine of the size meant here takes more.
const poolRate = 60_000

// ourRun is what a run of the ledger came to.
type ourRun struct {
	rate  float64       // entries a second
	cpu   time.Duration // processor time an entry
	bytes float64       // allocated on disk, an entry
}

func runOurs(ctx context.Context, b *bench, dir string, submitters int) (r ourRun, err error) {
	t, err := openLedger(ctx, dir)
	if err != nil {
		return r, err
	}
	next, err := t.envelopes(int(b.time.Seconds() * poolRate))
	if err != nil {
		return r, err
	}
	before := cpuTime()
	done, elapsed, err := closedLoop(submitters, b.time, next, func(envelope []byte) error { return t.submit(ctx, envelope) })
	if err != nil {
		return r, err
	}
	r.rate, r.cpu = float64(done)/elapsed.Seconds(), (cpuTime()-before)/time.Duration(done)
	if err := t.stop(); err != nil {
		return r, err
	}
	again, err := reopenLedger(dir, settings{}) // which removes the files of the write-ahead log that were kept for reuse
	if err != nil {
		return r, err
	}
	if err := again.leave(); err != nil {
		return r, err
	}
	bytes, err := allocated(filepath.Join(dir, "db"))
	r.bytes = float64(bytes) / float64(done)
	return r, err
}

// race is a comparison of rates at a number of submitters.
type race struct {
	name       string
	submitters int
	peer       peerSettings
	target     float64
}

func (r race) run(ctx context.Context, b *bench) error {
	var cpus [2][]float64 // µs an entry: ours, theirs
	mine, theirs, err := b.turns(func(dir string) (float64, error) {
		ours, err := runOurs(ctx, b, dir, r.submitters)
		cpus[0] = append(cpus[0], float64(ours.cpu)/float64(time.Microsecond))
		return ours.rate, err
	}, func(dir string) (float64, error) {
		their, err := runTessera(ctx, b, dir, r.submitters, r.peer)
		cpus[1] = append(cpus[1], float64(their.cpu)/float64(time.Microsecond))
		return their.rate, err
	})
	if err != nil {
		return err
	}
	b.print(row{name: r.name, value: mine / theirs, unit: "× tessera", target: r.target,
		detail: fmt.Sprintf("%.0f and %.0f entries/s, %.0f and %.0f µs of processor time each", mine, theirs, median(cpus[0]), median(cpus[1]))})
	return nil
}

func submit64(ctx context.Context, b *bench) error {
	return race{"durable and provable, 64 submitters, tessera tuned and awaited", 64, peerSettings{tuned: true, await: true}, 20}.run(ctx, b)
}

func submit1024(ctx context.Context, b *bench) error {
	return race{"durable and provable, 1024 submitters, tessera tuned and awaited", 1024, peerSettings{tuned: true, await: true}, 3}.run(ctx, b)
}

func submitIndexOnly(ctx context.Context, b *bench) error {
	return race{"1024 submitters as shipped, tessera default, index only, signature check in front", 1024, peerSettings{verify: true}, 1.8}.run(ctx, b)
}

// submitOne compares one submitter's time to a receipt with the least that a
// durable write can take on this disk.
func submitOne(ctx context.Context, b *bench) error {
	mine, theirs, err := b.turns(func(dir string) (float64, error) {
		t, err := openLedger(ctx, dir)
		if err != nil {
			return 0, err
		}
		next, err := t.envelopes(int(b.time.Seconds() * 10_000))
		if err != nil {
			return 0, err
		}
		p50, err := latency(b.time, func() (bool, error) {
			envelope := next()
			if envelope == nil {
				return false, nil
			}
			return true, t.submit(ctx, envelope)
		})
		if err != nil {
			return 0, err
		}
		return p50, t.stop()
	}, func(dir string) (float64, error) { return bareSync(b, dir) })
	if err != nil {
		return err
	}
	b.print(row{name: "one submitter, time to receipt, p50", value: mine / theirs, unit: "× append+fdatasync", target: 3, atMost: true,
		detail: fmt.Sprintf("%.0f and %.0f µs", mine, theirs)})
	return nil
}

// latency returns the median time of a step in microseconds.
func latency(duration time.Duration, step func() (more bool, err error)) (float64, error) {
	var times []float64
	for start := time.Now(); time.Since(start) < duration; {
		before := time.Now()
		more, err := step()
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
		times = append(times, float64(time.Since(before).Nanoseconds())/1e3)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// diskBytes compares the disk space an entry takes, and reports the processor
// time, which is not a comparison.
//
// It is measured after a restart: while a ledger runs, the files of its
// write-ahead log add a constant of up to 108 MiB, which a short run would show
// as a cost of entries. For the same reason a run is three times as long here.
func diskBytes(ctx context.Context, short *bench) error {
	var cpus []float64
	long := *short
	long.time *= 3
	b := &long
	defer func() { short.missed = b.missed }()
	mine, theirs, err := b.turns(func(dir string) (float64, error) {
		r, err := runOurs(ctx, b, dir, 1024)
		cpus = append(cpus, float64(r.cpu.Nanoseconds())/1e3)
		return r.bytes, err
	}, func(dir string) (float64, error) {
		r, err := runTessera(ctx, b, dir, 1024, peerSettings{})
		return r.bytes, err
	})
	if err != nil {
		return err
	}
	b.print(row{name: "processor time an entry, 1024 submitters", value: median(cpus), unit: "µs", target: 75, atMost: true})
	b.print(row{name: "disk space an entry, 1024 submitters, tessera default", value: mine / theirs, unit: "× tessera", target: 0.85, atMost: true,
		detail: fmt.Sprintf("%.0f and %.0f bytes", mine, theirs)})
	return nil
}

// memory puts load on a ledger in a process of its own and reads its memory.
func memory(ctx context.Context, b *bench) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var peak []float64
	for i := range b.rounds {
		dir := filepath.Join(b.dir, fmt.Sprintf("memory-%d", i))
		out, err := exec.CommandContext(ctx, self, "-load", dir, "-time", (5 * b.time).String()).Output()
		if err != nil {
			return fmt.Errorf("load: %w", err)
		}
		var mib float64
		if _, err := fmt.Sscan(string(bytes.TrimSpace(out)), &mib); err != nil {
			return err
		}
		peak = append(peak, mib)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	b.print(row{name: "resident memory under load, 1024 submitters", value: median(peak), unit: "MiB", target: 256, atMost: true,
		detail: "the submitters' memory included"})
	return nil
}

// loadMemory is the other process of [memory]: its submitters sign as they go.
func loadMemory(dir string, duration time.Duration) error {
	t, err := openLedger(context.Background(), dir)
	if err != nil {
		return err
	}
	numbers := make(chan int, 1024)
	go func() {
		for i := 0; ; i++ {
			numbers <- i
		}
	}()
	next := func() []byte { return []byte{1} }
	_, _, err = closedLoop(1024, duration, next, func([]byte) error {
		envelope, err := t.envelope(<-numbers)
		if err != nil {
			return err
		}
		return t.submit(context.Background(), envelope)
	})
	if err != nil {
		return err
	}
	mib, err := peakMemory("/proc/self/status")
	if err != nil {
		return err
	}
	fmt.Println(mib)
	return t.stop()
}

// peakMemory returns the largest resident memory that a process had, in MiB, as the status that the
// system shows of the process says.
func peakMemory(path string) (float64, error) {
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("%s has no VmHWM", path)
}

// openMillion measures how long a ledger of a million entries takes to open, with
// a snapshot of its state and without.
func openMillion(ctx context.Context, b *bench) error {
	const entries, batch = 1_000_000, 1000
	dir := filepath.Join(b.dir, "million")
	t, err := openLedger(ctx, dir)
	if err != nil {
		return err
	}
	for i := 0; i < entries; i += batch {
		if err := t.submitMany(ctx, i, batch); err != nil {
			return err
		}
	}
	if err := t.stop(); err != nil {
		return err
	}
	opened := func(with settings) (took []float64, err error) {
		for range b.rounds {
			start := time.Now()
			again, err := reopenLedger(dir, with)
			took = append(took, time.Since(start).Seconds())
			if err == nil {
				err = again.leave()
			}
			if err != nil {
				return nil, err
			}
		}
		return took, nil
	}
	took, err := opened(settings{})
	if err != nil {
		return err
	}
	b.print(row{name: "open with 1 M entries and a snapshot", value: median(took), unit: "s", target: 1, atMost: true})
	if took, err = opened(settings{rebuild: true}); err != nil {
		return err
	}
	b.print(row{name: "open with 1 M entries and no snapshot that counts: state built again", value: entries / median(took), unit: "entries/s", target: 200_000})
	return os.RemoveAll(dir)
}

// proofTenMillion runs the benchmark of inclusion proofs, which makes the tiles
// of ten million leaves without their entries and so lives beside the store.
func proofTenMillion(ctx context.Context, b *bench) error {
	test := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkProof$", "./ledger")
	test.Dir = filepath.Join("..", "..")
	out, err := test.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	targets := map[string]float64{"warm": 10, "cold": 200}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		at := slices.Index(fields, "p50-µs")
		if at < 1 {
			continue
		}
		name := strings.TrimPrefix(fields[0], "BenchmarkProof/")[:len("warm")]
		var p50 float64
		if _, err := fmt.Sscan(fields[at-1], &p50); err != nil {
			return err
		}
		b.print(row{name: "inclusion proof from the store, 10 M leaves, p50, " + name, value: p50, unit: "µs", target: targets[name], atMost: true})
		delete(targets, name)
	}
	if len(targets) > 0 {
		return fmt.Errorf("no figure of %v in: %s", targets, out)
	}
	return nil
}
