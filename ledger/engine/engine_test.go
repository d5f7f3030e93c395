package engine_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"recoveryledger/ledger/engine"
)

// TestLoggerTellsOnce wants an error that the engine repeats once, cut to one line of bounded
// length, and other errors beside it.
func TestLoggerTellsOnce(t *testing.T) {
	var out bytes.Buffer
	l := &engine.Logger{To: slog.New(slog.NewTextHandler(&out, nil))}
	for range 3 {
		l.Errorf("cannot compact %s\nat engine.go:1", strings.Repeat("x", 1000))
	}
	l.Background(errors.New("another"))
	l.Corruption(pebble.DataCorruptionInfo{Path: "000001.sst", Details: errors.New("checksum")})
	l.Infof("not an error")
	said := out.String()
	if n := strings.Count(said, "cannot compact"); n != 1 || strings.Contains(said, "engine.go") || len(said) > 1000 {
		t.Errorf("said %d times: %s", n, said)
	}
	if !strings.Contains(said, "another") || !strings.Contains(said, "000001.sst") || strings.Contains(said, "not an error") {
		t.Errorf("said %s", said)
	}
}

// TestFatalEndsTheProcess wants the class of damage on an error that means damage, and on no other.
func TestFatalEndsTheProcess(t *testing.T) {
	for _, test := range []struct {
		cause error
		class bool
	}{{pebble.ErrCorruption, true}, {errors.New("disk full"), false}} {
		var got error
		l := &engine.Logger{Ends: func(err error) { got = err }}
		func() {
			defer func() { _ = recover() }() // a process would have ended before
			l.Fatalf("write: %v", test.cause)
		}()
		if _, own := errors.AsType[*engine.FatalError](got); !own || errors.Is(got, engine.ErrCorrupt) != test.class {
			t.Errorf("%v: ended with %v", test.cause, got)
		}
	}
}

// TestNewerFormat refuses the format of a newer engine alone. A directory without a format, or with
// one that is no number, is not its matter.
func TestNewerFormat(t *testing.T) {
	newest := uint64(pebble.FormatNewest)
	for format, newer := range map[string]bool{
		"": false, "x": false, strconv.FormatUint(newest-1, 10): false, strconv.FormatUint(newest, 10): false, strconv.FormatUint(newest+1, 10): true,
	} {
		fs := vfs.NewMem()
		if format != "" {
			marker, _, err := atomicfs.LocateMarker(fs, "", "format-version")
			if err = errors.Join(err, marker.Move(format)); err != nil {
				t.Fatal(err)
			}
		}
		if err := engine.CheckFormat(fs, ""); (err != nil) != newer {
			t.Errorf("%q: %v", format, err)
		}
	}
	if err := engine.CheckFormat(vfs.NewMem(), "nowhere"); err != nil {
		t.Error(err)
	}
}

// TestOptionsAreWhole finds a list of options that was cut off, in its last line or before.
func TestOptionsAreWhole(t *testing.T) {
	options := &pebble.Options{}
	options.EnsureDefaults()
	want := options.String()
	if err := engine.CheckOptionsEnd(want, want); err != nil {
		t.Error(err)
	}
	for _, cut := range []string{want[:len(want)-1], want[:strings.LastIndex(strings.TrimSuffix(want, "\n"), "\n")+1], ""} {
		if engine.CheckOptionsEnd(cut, want) == nil {
			t.Errorf("%d of %d bytes are taken", len(cut), len(want))
		}
	}
}
