package codec_test

import (
	"bufio"
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/coord/codec"
)

var errMalformed = errors.New("malformed")

// all is one of everything that is passed in both directions.
type all struct {
	number    uint32
	instant   int64
	flag      bool
	text      string
	raw       [3]byte
	list      []string
	ascending []uint32
	optional  *int64
}

const magic = "all 1\n"

func (a *all) pass(c *codec.Codec) {
	c.Magic(magic)
	codec.Number(c, &a.number, math.MaxUint32)
	c.Instant(&a.instant)
	c.Flag(&a.flag)
	c.Text(&a.text, 20)
	c.Raw(a.raw[:])
	codec.List(c, &a.list, 5, func(text *string) { c.Text(text, 20) })
	codec.Ascending(c, &a.ascending, 100)
	codec.Optional(c, &a.optional, func(at *int64) { c.Instant(at) })
}

func (a *all) write(t interface{ Fatal(args ...any) }) []byte {
	var out bytes.Buffer
	c := codec.NewWriter(&out)
	a.pass(c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(data []byte) (a all, err error) {
	c := codec.NewReader(bytes.NewReader(data), errMalformed)
	a.pass(c)
	return a, c.Close()
}

func (a *all) equal(b *all) bool {
	same := a.optional == b.optional || a.optional != nil && b.optional != nil && *a.optional == *b.optional
	return same && a.number == b.number && a.instant == b.instant && a.flag == b.flag && a.text == b.text && a.raw == b.raw &&
		slices.Equal(a.list, b.list) && slices.Equal(a.ascending, b.ascending)
}

// TestBothWays reads what was written, and refuses every prefix of it and bytes
// behind its end.
func TestBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 5, 20)
		a := all{number: rapid.Uint32Max(math.MaxUint32-1).Draw(t, "number"), instant: rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "instant"),
			flag: rapid.Bool().Draw(t, "flag"), text: text.Draw(t, "text"), list: rapid.SliceOfN(text, 0, 5).Draw(t, "list"),
			ascending: rapid.SliceOfNDistinct(rapid.Uint32Max(99), 0, 10, rapid.ID).Draw(t, "ascending")}
		slices.Sort(a.ascending)
		if rapid.Bool().Draw(t, "present") {
			at := rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "optional")
			a.optional = &at
		}
		data := a.write(t)
		if b, err := read(data); err != nil || !b.equal(&a) {
			t.Fatalf("read %+v, %v, written was %+v", b, err, a)
		}
		for size := range data {
			if _, err := read(data[:size]); !errors.Is(err, errMalformed) {
				t.Fatalf("prefix %d: %v", size, err)
			}
		}
		if _, err := read(append(data, 0)); !errors.Is(err, errMalformed) {
			t.Fatalf("a byte behind the end: %v", err)
		}
	})
}

// TestGetRefuses gives numbers that Put never writes, and one at its limit.
func TestGetRefuses(t *testing.T) {
	for _, data := range [][]byte{{0x81, 0}, {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2}, bytes.Repeat([]byte{0x81}, 20), {7}, {}} {
		c := codec.NewReader(bytes.NewReader(data), errMalformed)
		if n := c.Get(7); n != 0 || !errors.Is(c.Err(), errMalformed) {
			t.Errorf("%x: %d, %v", data, n, c.Err())
		}
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error)  { return 0, b.err }
func (b broken) Write([]byte) (int, error) { return 0, b.err }

// TestErrorsComeThrough shows that errors of reader and writer are not called
// malformed.
func TestErrorsComeThrough(t *testing.T) {
	gone := errors.New("gone")
	w := codec.NewWriter(broken{gone})
	w.Put(1)
	if err := w.Close(); !errors.Is(err, gone) {
		t.Errorf("write: %v", err)
	}
	r := codec.NewReader(broken{gone}, errMalformed)
	r.Get(2)
	if err := r.Close(); !errors.Is(err, gone) || errors.Is(err, errMalformed) {
		t.Errorf("read: %v", err)
	}
}

// TestSnapshotsBehindEachOther reads two from one buffered reader.
func TestSnapshotsBehindEachOther(t *testing.T) {
	one, two := all{number: 1}, all{number: 2}
	r := bufio.NewReaderSize(bytes.NewReader(append(one.write(t), two.write(t)...)), codec.BufferSize)
	var a all
	first := codec.NewReader(r, errMalformed)
	if a.pass(first); first.Err() != nil || a.number != 1 {
		t.Fatalf("%+v, %v", a, first.Err())
	}
	var b all
	second := codec.NewReader(r, errMalformed)
	b.pass(second)
	if err := second.Close(); err != nil || b.number != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
}

// FuzzRead reads anything: an error that says so, or what is written as it was
// read.
func FuzzRead(f *testing.F) {
	at := int64(7)
	whole := all{1, 2, true, "text", [3]byte{1, 2, 3}, []string{"a", "b"}, []uint32{1, 5}, &at}
	f.Add(whole.write(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		switch a, err := read(data); {
		case err == nil && !bytes.Equal(a.write(t), data):
			t.Fatal("read, and written it differs")
		case err != nil && !errors.Is(err, errMalformed):
			t.Fatal(err)
		}
	})
}
