package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/export"
	"recoveryledger/ledger/keys"
)

// TestTuneRuntime shows that what the user has set stays, and that what is set
// for a ledger is taken back.
func TestTuneRuntime(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	runtime.SetDefaultGOMAXPROCS()
	collect, processors := gcPercent(), runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		desc, gogc, gomaxprocs string
		inPlace, clustered     bool
		collect                uint64
		processors             int
	}{
		{"nothing is set", "", "", false, false, 25, processors + 2},
		{"GOGC is set", "80", "", false, false, collect, processors + 2},
		{"GOMAXPROCS is set", "", "3", false, false, 25, processors},
		{"both are set", "80", "3", false, false, collect, processors},
		{"opened in place", "", "", true, false, 0, processors + 2}, // TestCollector
		{"a node of a cluster", "", "", false, true, 0, processors + 2},
	} {
		t.Run(c.desc, func(t *testing.T) {
			t.Setenv("GOGC", c.gogc)
			t.Setenv("GOMAXPROCS", c.gomaxprocs)
			restore := tuneRuntime(!c.inPlace, c.clustered)
			if gc, procs := gcPercent(), runtime.GOMAXPROCS(0); c.collect > 0 && gc != c.collect || c.inPlace && gc < percentMin || gc < percentNode || procs != c.processors {
				t.Errorf("collection at %d %%, %d processors, want %d and %d", gc, procs, c.collect, c.processors)
			}
			restore()
			if gc, procs := gcPercent(), runtime.GOMAXPROCS(0); gc != collect || procs != processors {
				t.Errorf("then collection at %d %%, %d processors, want %d and %d as before", gc, procs, collect, processors)
			}
		})
	}
}

// TestCollector: GOGC follows what is alive, down to its least, until the collector is stopped.
func TestCollector(t *testing.T) {
	for alive, want := range map[uint64]int{0: 800, 1 << 20: 800, 16 << 20: 400, 60 << 20: 100, 128 << 20: 50, 4 << 30: 50} {
		if got := percentOf(alive, percentMin); got != want {
			t.Errorf("%d bytes: %d %%, want %d", alive, got, want)
		}
	}
	if got := percentOf(4<<30, percentNode); got != percentNode {
		t.Errorf("a node of a cluster: %d %%", got)
	}
	c, before := startCollector(percentMin)
	t.Cleanup(func() { c.stop(); debug.SetGCPercent(before) })
	kept := make([]byte, 300<<20)
	for gcPercent() != percentMin {
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(kept)
	for gcPercent() == percentMin {
		runtime.GC()
		runtime.Gosched()
	}
	c.stop()
	debug.SetGCPercent(77)
	for range 3 {
		runtime.GC()
	}
	if got := gcPercent(); got != 77 {
		t.Errorf("a collector that was stopped set %d %%", got)
	}
}

// gcPercent returns what GOGC is in force.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Damage that an import meets has a remedy, whether the export has it or the
// database that is there already.
func TestDamageOfAnImportHasARemedy(t *testing.T) {
	n := &Node{Dir: t.TempDir(), Anchor: "d.anchor"}
	for _, want := range []map[error]string{
		{ledger.ErrCorrupt: "has no log yet: take another copy of public", export.ErrDamaged: "has no log yet: take another copy of public"},
		{ledger.ErrCorrupt: "arl log fsck", export.ErrDamaged: "take another copy of public"},
	} {
		for class, remedy := range want {
			err := n.importError("public", fmt.Errorf("tile: %w", class))
			if exit.Code(err) != exit.Inconsistent || !strings.Contains(exit.Remedy(err), remedy) {
				t.Errorf("%v: exit code %d, remedy %q, want %q", class, exit.Code(err), exit.Remedy(err), remedy)
			}
		}
		if err := os.MkdirAll(n.Database(), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// By default the anchor lies beside the data directory, whatever it is called.
func TestAnchorLiesBesideTheData(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, want := range map[string]string{
		".": dir, "./": dir, "..": filepath.Dir(dir), "data": filepath.Join(dir, "data"), "data/": filepath.Join(dir, "data"),
		"data/..": dir, "data/../": dir,
	} {
		if got, err := anchorOf(name); err != nil || got != want+".anchor" {
			t.Errorf("%s: %s, %v, want %s.anchor", name, got, err, want)
		}
	}
	for _, root := range []string{"/", "//", "/.", "/tmp/.."} {
		if got, err := anchorOf(root); exit.Code(err) != exit.Usage {
			t.Errorf("%s: %s, %v", root, got, err)
		}
	}
}

// What the coordinator writes is always admitted; if not, the operator hears it.
func TestCoordinatorWarnsOfRefusals(t *testing.T) {
	var out bytes.Buffer
	signer, err := keys.Generate(filepath.Join(t.TempDir(), "coordinator.key"), keys.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Logger: slog.New(slog.NewTextHandler(&out, nil)), Replica: coordinator.New("test.log", nil), signer: signer}
	n.coordinator().Refused(&entry.Decision{}, entry.Refuse(entry.UnknownIssuer, "signatures[0].keyid", "not enrolled"))
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "problem=unknown-issuer") {
		t.Errorf("logged: %s", out.String())
	}
}

// A policy in force that no ledger could obey is warned of at each start.
func TestWarnOfPolicy(t *testing.T) {
	var log strings.Builder
	n := &Node{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	p := entry.Genesis("test")
	if n.WarnOfPolicy(p, 0); log.Len() > 0 {
		t.Errorf("%s", log.String())
	}
	p.Witnesses = "quorum nobody"
	if n.WarnOfPolicy(p, 7); !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "entry=7 field=witnesses") {
		t.Errorf("%q", log.String())
	}
}

// The URL that a start prints and keeps is one that this machine can use.
func TestListenURL(t *testing.T) {
	for _, c := range []struct {
		listen, bound string
		encrypted     bool
		want          string
	}{
		{"127.0.0.1:8087", "127.0.0.1:8087", false, "http://127.0.0.1:8087"},
		{"127.0.0.1:0", "127.0.0.1:41234", false, "http://127.0.0.1:41234"},
		{"0.0.0.0:8087", "[::]:8087", false, "http://127.0.0.1:8087"},
		{":0", "[::]:41234", true, "https://127.0.0.1:41234"},
		{"[::]:8087", "[::]:8087", false, "http://[::1]:8087"},
		{"localhost:8087", "127.0.0.1:8087", false, "http://localhost:8087"},
		{"ledger.example:http", "192.0.2.1:80", true, "https://ledger.example:80"},
	} {
		bound, err := net.ResolveTCPAddr("tcp", c.bound)
		if err != nil {
			t.Fatal(err)
		}
		if got := ListenURL(c.listen, bound, c.encrypted); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.listen, c.bound, got, c.want)
		}
	}
}
