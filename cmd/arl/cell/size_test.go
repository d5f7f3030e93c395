//go:build linux && !race

package cell_test

import (
	"debug/elf"
	"testing"

	"recoveryledger/testdata/program"
)

// sizeMax is the most bytes of the stripped program. docs/decisions.md has the cost of each cut.
const sizeMax = 72_200_000

// TestProgramSize adds up what stays of the program when its symbols and DWARF are left out.
func TestProgramSize(t *testing.T) {
	f, err := elf.Open(program.Arl(t))
	must(t, err)
	defer f.Close()
	var size uint64
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.Flags&elf.SHF_ALLOC != 0 {
			size += s.FileSize
		}
	}
	t.Logf("%d bytes", size)
	if size > sizeMax {
		t.Errorf("the stripped program has %d bytes, the limit is %d: find what weighs with go tool nm -size", size, sizeMax)
	}
}
