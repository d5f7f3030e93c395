package scale_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/cluster/scale"
)

var update = flag.Bool("update", false, "write the tables of docs/scale.md anew; read the difference")

// TestLatencies: a percentile is that of the times that were added, rounded up a little.
func TestLatencies(t *testing.T) {
	p := scale.Measured()
	p.Jitter = 0
	l := p.Cell(0, 1, 10_000, false) // an entry a second waits for nobody
	alone := p.Agree + p.Serial
	for _, part := range []float64{0.5, 0.99} {
		if got := l.Percentile(part); got < alone || got > alone*107/100 {
			t.Errorf("an entry alone takes %v, want %v", got, alone)
		}
	}
	if twice := new(scale.Latencies); twice.Percentile(0.5) != 0 {
		t.Error("a percentile of nothing")
	}
}

// TestSaturation: a cell takes what its batches can hold, and no more. Where it takes everything,
// the mean of what waits follows Little's law: it is bounded.
func TestSaturation(t *testing.T) {
	p := scale.Measured()
	most := float64(p.BatchMax) / (p.Agree.Seconds() + float64(p.BatchMax)*p.Serial.Seconds())
	if l := p.Cell(0, 0.9*most, 10, false); float64(l.Waiting) > 0.2*most {
		t.Errorf("at 0.9 of what it takes %d wait", l.Waiting)
	}
	if l := p.Cell(0, 1.2*most, 10, false); float64(l.Waiting) < 0.1*most*10 {
		t.Errorf("at 1.2 of what it takes only %d wait", l.Waiting)
	}
}

// TestOutage: nothing is lost in an outage, and the longest time is that of the outage and of what
// has gathered meanwhile.
func TestOutage(t *testing.T) {
	p := scale.Measured()
	l := p.Cell(7, 5000, 20, true)
	longest := l.Percentile(1)
	if longest < p.OutageMin || longest > 2*p.OutageMax || l.Waiting > 1000 {
		t.Errorf("longest %v, %d wait", longest, l.Waiting)
	}
}

// TestPlacement: a placement loses no rate, and the directory's is the more even one.
func TestPlacement(t *testing.T) {
	p := scale.Measured()
	logs := p.Logs(p.Zipf(1))
	for name, cells := range map[string][]float64{"hash": p.ByHash(logs), "directory": p.ByDirectory(logs)} {
		sum := 0.0
		for _, rate := range cells {
			sum += rate
		}
		if math.Abs(sum-p.Rate) > 1e-3 {
			t.Errorf("by %s the cells have %f entries/s", name, sum)
		}
	}
	if hash, directory := scale.Peak(p.ByHash(logs)), scale.Peak(p.ByDirectory(logs)); directory >= hash || directory < 1 {
		t.Errorf("busiest cell by hash %.2f, by directory %.2f", hash, directory)
	}
}

// TestState: what is kept is the rate times the time for which it is kept (Little's law).
func TestState(t *testing.T) {
	p := scale.Measured()
	got, want := p.State(5, 10, 3600, 3600, 100_000), 5.0*10*(3600+3600)
	if math.Abs(got-want) > 0.05*want {
		t.Errorf("%.0f entries are kept, want about %.0f", got, want)
	}
	if got := p.State(5, 10, 3600, -1, 10_000); math.Abs(got-5*10*10_000) > 0.05*5*10*10_000 {
		t.Errorf("of what is never forgotten %.0f entries are kept", got)
	}
}

// TestPage compares the tables of docs/scale.md with the simulation.
func TestPage(t *testing.T) {
	path := filepath.FromSlash("../../../docs/scale.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- simulated: go test ./ledger/cluster/scale -update -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("docs/scale.md has no place for the tables")
	}
	want := before + begin + tables() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(content) != want {
		t.Errorf("docs/scale.md is stale: go test ./ledger/cluster/scale -run TestPage -update\n%s", tables())
	}
}

// tables are the results of the simulation.
func tables() string {
	var b strings.Builder
	p := scale.Measured()
	b.WriteString("\n| tenants, Zipf | hottest tenant | its logs | busiest cell over the mean, by hash | by directory |\n|---|---|---|---|---|\n")
	for _, s := range []float64{0.8, 1.0, 1.2} {
		tenants := p.Zipf(s)
		logs := p.Logs(tenants)
		fmt.Fprintf(&b, "| %.1f | %.0f k/s | %.0f | %.1f | %.1f |\n", s, tenants[0]/1000, math.Ceil(tenants[0]/p.LogRate), scale.Peak(p.ByHash(logs)), scale.Peak(p.ByDirectory(logs)))
	}
	b.WriteString("\n| one cell | p50 | p99 | p99.9 |\n|---|---|---|---|\n")
	for _, rate := range []float64{1000, 5000, 10_000, 20_000, 30_000} {
		l := p.Cell(0, rate, 20, false)
		fmt.Fprintf(&b, "| %.0f k/s | %s | %s | %s |\n", rate/1000, round(l.Percentile(0.5)), round(l.Percentile(0.99)), round(l.Percentile(0.999)))
	}
	b.WriteString("\n| 100 cells, 0.5 M entries/s, placed by the directory, Zipf 1.0, 20 s | p50 | p99 | p99.9 | longest |\n|---|---|---|---|---|\n")
	cells := p.ByDirectory(p.Logs(p.Zipf(1)))
	for _, failing := range []int{0, 2, 20} {
		all := new(scale.Latencies)
		for i, rate := range cells {
			all.Add(p.Cell(uint64(i), rate, 20, i < failing))
		}
		fmt.Fprintf(&b, "| %d cells fail over | %s | %s | %s | %s |\n", failing, round(all.Percentile(0.5)), round(all.Percentile(0.99)), round(all.Percentile(0.999)), round(all.Percentile(1)))
	}
	b.WriteString("\n| a workflow that is over is forgotten after | entries in the memory of a cell | GB |\n|---|---|---|\n")
	const sample = 100 // one workflow of so many is simulated
	rate, seconds := p.Rate/float64(p.Cells)/entriesPerWorkflow/sample, 1e10/p.Rate
	for _, keep := range []time.Duration{-1, 24 * time.Hour, time.Hour, 10 * time.Minute, 0} {
		entries := sample * p.State(rate, entriesPerWorkflow, workflowMean.Seconds(), keep.Seconds(), seconds)
		name := map[time.Duration]string{-1: "never (today)", 0: "at once", 24 * time.Hour: "24 h", time.Hour: "1 h", 10 * time.Minute: "10 min"}[keep]
		fmt.Fprintf(&b, "| %s | %.0f M | %.1f |\n", name, entries/1e6, entries*bytesInMemory/1e9)
	}
	return b.String() + "\n"
}

// The workflows of the table, and the memory that an entry takes.
const (
	entriesPerWorkflow = 10
	workflowMean       = 10 * time.Minute
	bytesInMemory      = 180
)

func round(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
