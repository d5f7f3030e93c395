//go:build linux && !race

package cell_test

import (
	"debug/buildinfo"
	"debug/elf"
	"runtime/debug"
	"slices"
	"testing"

	"recoveryledger/testdata/program"
)

// sizeMax is the most bytes of the stripped program as it is released: without cgo and without the
// paths of the machine. cgoMost is what these two add. docs/decisions.md has the cost of each cut.
const (
	sizeMax = 65_000_000
	cgoMost = 1_500_000
)

// TestProgramSize adds up what stays of the program when its symbols and DWARF are left out.
func TestProgramSize(t *testing.T) {
	most := uint64(sizeMax)
	built, err := buildinfo.ReadFile(program.Arl(t))
	must(t, err)
	for _, released := range []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}, {Key: "-trimpath", Value: "true"}} {
		if !slices.Contains(built.Settings, released) {
			most = sizeMax + cgoMost
		}
	}
	f, err := elf.Open(program.Arl(t))
	must(t, err)
	defer f.Close()
	var size uint64
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.Flags&elf.SHF_ALLOC != 0 {
			size += s.FileSize
		}
	}
	t.Logf("%d bytes, of at most %d", size, most)
	if size > most {
		t.Errorf("the stripped program has %d bytes, the limit is %d: find what weighs with go tool nm -size", size, most)
	}
}
