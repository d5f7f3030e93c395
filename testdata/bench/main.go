// Command bench measures the ledger against its peers, in turn, in one run, and
// prints ratios beside the targets that the project sets itself. Everything is
// durable before it counts. Absolute numbers say more about the disk than about
// the code; the ratios are what to compare between machines.
//
//	go run . [-dir DIR] [-time 4s] [-rounds 3] [-only REGEXP]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

// bench is what every case gets: where to write, how long to run.
type bench struct {
	dir    string
	time   time.Duration
	rounds int
	out    *tabwriter.Writer
	missed int

	entries int // of the log that an empty node catches up with
	faults  int // kills and pauses of nodes

	profile string // file of the processor profile; empty: none is made
}

// row is a measured case and what it should reach.
type row struct {
	name   string
	value  float64
	unit   string
	target float64
	atMost bool // the target is an upper bound
	detail string
}

// cases are run in this order. Each prints its rows.
func cases() []struct {
	name string
	run  func(context.Context, *bench) error
} {
	return []struct {
		name string
		run  func(context.Context, *bench) error
	}{
		{"submit-64", submit64},
		{"submit-1024", submit1024},
		{"submit-1024-index-only", submitIndexOnly},
		{"submit-1", submitOne},
		{"slow-key", slowKey},
		{"http-single", httpSingle},
		{"http-batch", httpBatch},
		{"disk", diskBytes},
		{"memory", memory},
		{"open-1m", openMillion},
		{"authorize", authorizeHundred},
		{"notify", signalToNotification},
		{"snapshots", backgroundSnapshots},
		{"flood", falseSignals},
		{"proof-10m", proofTenMillion},
		{"decide", decideOverHTTP},
		{"mcp", proxyCalls},
		{"cluster-rate", clusterRate},
		{"cluster-join", clusterJoin},
		{"cluster-failover", clusterFailover},
		{"publish", publishing},
		{"recover-1m", recoverBatch},
		{"recover-ledger", recoverLedger},
		{"recover-one", recoverOne},
	}
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "", "scratch directory on the disk to measure; default: a new temporary one")
	duration := flag.Duration("time", 4*time.Second, "time of each run")
	rounds := flag.Int("rounds", 3, "runs of each side, in turn; medians count")
	entries := flag.Int("entries", 1_000_000, "entries of the log that an empty node of a cluster catches up with")
	faults := flag.Int("faults", 200, "kills and pauses of nodes of a cluster")
	only := flag.String("only", "", "regular expression of the cases to run")
	profile := flag.String("cpuprofile", "", "file to write a processor profile of the whole run to; with the name of a node behind it, that of the node's last run")
	growTo := flag.Int("grow", 0, "instead of the cases, fill a ledger to this size and measure at every power of ten")
	load := flag.String("load", "", "internal: put load on a ledger in this directory and print its memory")
	node := flag.String("node", "", "internal: be the node of this directory, and do what stdin says")
	flag.Parse()
	if *load != "" {
		if err := loadMemory(*load, *duration); err != nil {
			log.Fatal(err)
		}
		return
	}
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			log.Fatal(err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			log.Fatal(err)
		}
	}
	if *node != "" {
		err := runNode(*node)
		pprof.StopCPUProfile()
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	err := run(&bench{profile: *profile, dir: *dir, time: *duration, rounds: *rounds, entries: *entries, faults: *faults}, *only, *growTo)
	pprof.StopCPUProfile()
	if err != nil {
		log.Fatal(err)
	}
}

func run(b *bench, only string, growTo int) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(b.dir, "ledger-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.out = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	if err := b.describe(); err != nil {
		return err
	}
	if growTo > 0 {
		return grow(context.Background(), b, growTo)
	}
	for _, c := range cases() {
		if !wanted.MatchString(c.name) {
			continue
		}
		debug.FreeOSMemory()
		if err := c.run(context.Background(), b); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := b.out.Flush(); err != nil {
			return err
		}
	}
	fmt.Printf("%d targets missed\n", b.missed)
	return nil
}

// describe prints what the numbers depend on.
func (b *bench) describe() error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(b.dir, &fs); err != nil {
		return err
	}
	names := map[int64]string{0xEF53: "ext2/3/4", 0x01021994: "tmpfs", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x794c7630: "overlayfs"}
	name, ok := names[int64(fs.Type)]
	if !ok {
		name = fmt.Sprintf("%#x", fs.Type)
	}
	fmt.Printf("%s, %d processors, file system %s, entries of %d bytes, %v a run, median of %d\n",
		runtime.Version(), runtime.GOMAXPROCS(0), name, entrySize, b.time, b.rounds)
	fmt.Println("ledger: as shipped: signature check, admission, indexes, one synced batch a commit; counted when the inclusion proof is made")
	fmt.Println("tessera v1.0.4 POSIX: default = batches of 256 or 250 ms; tuned = batches of 4096 or 5 ms, checkpoint every 100 ms, counted when the entry is in a published checkpoint")
	return nil
}

// print adds a row to the table.
func (b *bench) print(r row) {
	verdict, sign := "ok", "≥"
	if r.atMost {
		sign = "≤"
	}
	if (r.atMost && r.value > r.target) || (!r.atMost && r.value < r.target) {
		verdict = "MISSED"
		b.missed++
	}
	fmt.Fprintf(b.out, "%s\t%.3g %s\t%s %.3g\t%s\t%s\n", r.name, r.value, r.unit, sign, r.target, verdict, r.detail)
}

// turns runs both sides in turn and returns the medians.
func (b *bench) turns(ours, peer func(dir string) (float64, error)) (mine, theirs float64, err error) {
	var a, z []float64
	for i := range b.rounds {
		for side, run := range []func(string) (float64, error){ours, peer} {
			dir := filepath.Join(b.dir, fmt.Sprintf("%d-%d", i, side))
			value, err := run(dir)
			if err != nil {
				return 0, 0, err
			}
			if side == 0 {
				a = append(a, value)
			} else {
				z = append(z, value)
			}
			if err := os.RemoveAll(dir); err != nil {
				return 0, 0, err
			}
			syscall.Sync()
		}
	}
	return median(a), median(z), nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// allocated returns the bytes that the files below dir take on the disk.
func allocated(dir string) (bytes int64, err error) {
	err = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a compaction has removed it meanwhile
			return nil
		}
		if err != nil || info.IsDir() {
			return err
		}
		bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return bytes, err
}

// cpuTime returns the processor time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
