package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
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
		collect                uint64
		processors             int
	}{
		{"nothing is set", "", "", 25, processors + 2},
		{"GOGC is set", "80", "", collect, processors + 2},
		{"GOMAXPROCS is set", "", "3", 25, processors},
		{"both are set", "80", "3", collect, processors},
	} {
		t.Run(c.desc, func(t *testing.T) {
			t.Setenv("GOGC", c.gogc)
			t.Setenv("GOMAXPROCS", c.gomaxprocs)
			restore := tuneRuntime()
			if gc, procs := gcPercent(), runtime.GOMAXPROCS(0); gc != c.collect || procs != c.processors {
				t.Errorf("collection at %d %%, %d processors, want %d and %d", gc, procs, c.collect, c.processors)
			}
			restore()
			if gc, procs := gcPercent(), runtime.GOMAXPROCS(0); gc != collect || procs != processors {
				t.Errorf("then collection at %d %%, %d processors, want %d and %d as before", gc, procs, collect, processors)
			}
		})
	}
}

// gcPercent returns what GOGC is in force.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
