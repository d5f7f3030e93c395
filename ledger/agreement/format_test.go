package agreement_test

import (
	"errors"
	"strings"
	"testing"

	"recoveryledger/ledger/agreement"
)

// TestFormat: a batch says its format, which is that of the cluster. A program that does not know a
// format says so, and knows all formats before the newest one that it knows.
func TestFormat(t *testing.T) {
	format := 1
	m := agreement.Member{Secret: secret, Format: func() int { return format }}
	defer agreement.SetNewest("1")
	for newest, want := range map[string]int{"1": 1, "2": 2, "9": 9, "10": 9, "0": 1, "-3": 1, "two": 1, "": 1} {
		if agreement.SetNewest(newest); agreement.Newest() != want {
			t.Errorf("%q: %d", newest, agreement.Newest())
		}
	}
	agreement.SetNewest("2")
	for format = 1; format <= 2; format++ {
		b, _, err := agreement.Decode(secret, m.Encode(sample(t, 1)))
		if err != nil || b.Format != format {
			t.Errorf("format %d: %+v, %v", format, b, err)
		}
	}
	format = 3
	if _, _, err := agreement.Decode(secret, m.Encode(sample(t, 1))); !errors.Is(err, agreement.ErrFormat) || errors.Is(err, agreement.ErrMalformed) ||
		!strings.Contains(err.Error(), "a batch has format 3, and this program knows formats up to 2") {
		t.Errorf("a newer format: %v", err)
	}
	for _, begin := range []string{"B0", "B:", "C1", "b1"} {
		text := m.Encode(sample(t, 1))
		if _, _, err := agreement.Decode(secret, agreement.Sealed(secret, append([]byte(begin), text[2:len(text)-32]...))); !errors.Is(err, agreement.ErrMalformed) {
			t.Errorf("%s: %v", begin, err)
		}
	}
	alone := agreement.Member{Secret: secret}
	if b, _, err := agreement.Decode(secret, alone.Encode(sample(t, 1))); err != nil || b.Format != 1 {
		t.Errorf("without a cluster's format: %+v, %v", b, err)
	}
}
