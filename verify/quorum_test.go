package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// witnesses is the beginning of a witness policy that names a, b and c.
func witnesses() (text string, list []verify.Witness) {
	for _, name := range []string{"a", "b", "c"} {
		_, key := testlog.WitnessKey("w" + name)
		list = append(list, verify.Witness{Name: name, Key: key})
		text += "witness " + name + " " + key + "\n"
	}
	return text, list
}

// TestAQuorumIsAsOldAsItsOldestNeededWord: of the times at which witnesses have
// cosigned, the newest that as many as are needed had all cosigned by.
func TestAQuorumIsAsOldAsItsOldestNeededWord(t *testing.T) {
	l, _ := working(t)
	three, _ := witnesses()
	signed := l.Signed(15)
	for _, by := range []struct {
		name string
		at   int64
	}{{"wa", 5}, {"wb", 9}, {"wc", 7}} {
		signed = testlog.Cosigned(signed, by.name, by.at)
	}
	for lines, want := range map[string]int64{
		"quorum a\n":                                                5,
		"group g any a b c\nquorum g\n":                             9,
		"group g 1 a b c\nquorum g\n":                               9,
		"group g 2 a b c\nquorum g\n":                               7,
		"group g all a b c\nquorum g\n":                             5,
		"group g 3 a b c\nquorum g\n":                               5,
		"group g any a\nquorum g\n":                                 5,
		"group g all a b\ngroup h any g c\nquorum h\n":              7,
		"group g any a b\ngroup h all g c\nquorum h\n":              7,
		"log vkey\nquorum a\n":                                      5,
		"log vkey https://log.example\nquorum a\n":                  5,
		"group g all a b\ngroup h 1 c\ngroup i all g h\nquorum i\n": 5,
	} {
		q, err := l.Root.Quorum(three + lines)
		must(t, err)
		if at, ok := q.Since(signed, 100); !ok || at != want {
			t.Errorf("%q: cosigned %v at %d, want %d", lines, ok, at, want)
		}
		if at, ok := q.Since(l.Signed(15), 100); ok || at != 0 {
			t.Errorf("%q: nobody cosigned, and it is so since %d", lines, at)
		}
	}
}

// TestAWitnessPolicyIsToldByItsWords: what a line lacks or has too much is refused,
// and the error names the line.
func TestAWitnessPolicyIsToldByItsWords(t *testing.T) {
	l, _ := working(t)
	three, list := witnesses()
	_, other := testlog.WitnessKey("wd")
	for line, want := range map[string]string{
		"log":                         "is none of log, witness, group and quorum",
		"log a b c":                   "is none of",
		"mirror d " + other:           "is none of",
		"witness d " + other + " u v": "is none of",
		"mirror g any a":              "is none of",
		"quorum":                      "is none of",
		"quorum a b":                  `"quorum a b" is none of`,
		"mirror a":                    `"mirror a" is none of`,
		"quorum d":                    `quorum "d" is a second one, or unknown`,
		"witness d hello":             `"hello" is not a verifier key`,
		"group g 0 a":                 `group "g" needs "0" of 1`,
		"group g many a":              `group "g" needs "many" of 1`,
		"group g 2 a":                 `group "g" needs "2" of 1`,
		"group g 01 a":                `group "g" needs "01" of 1`,
		"group g any d":               `member "d" is unknown, or in a group already`,
		"group a any b":               `the name "a" is taken`,
		"witness none " + other:       `the name "none" is taken`,
		"witness d " + list[0].Key:    `witness "d" has the key of witness "a"`,
	} {
		_, err := l.Root.Quorum(three + line + "\nquorum a\n")
		wantFormat(t, err)
		if !strings.Contains(err.Error(), "witness policy: line 4: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
	l.Root.Witnesses = "hello"
	if !l.Root.Watched() {
		t.Error("a root whose witnesses cannot be read passes for one without")
	}
}

// TestWhoMakesAQuorum: which witnesses are enough, and which can count at all.
func TestWhoMakesAQuorum(t *testing.T) {
	l, _ := working(t)
	three, _ := witnesses()
	_, other := testlog.WitnessKey("wd")
	three += "witness d " + other + "\n"
	for lines, want := range map[string]struct{ enough, tooFew, counts string }{
		"quorum a\n": {"a ab abc", "- b bcd", "a"},
		"group h any a b\ngroup g all h c\nquorum g\n": {"ac bc abc", "- a b c d ab cd", "abc"},
		"group g 2 a b c\nquorum g\n":                  {"ab bc ac abc", "- a b c d ad", "abc"},
	} {
		q, err := l.Root.Quorum(three + lines)
		must(t, err)
		for names := range strings.FieldsSeq(want.enough + " " + want.tooFew) {
			enough := slices.Contains(strings.Fields(want.enough), names)
			if got := q.Reached(func(witness string) bool { return strings.Contains(names, witness) }); got != enough {
				t.Errorf("%q: by %s, reached %v", lines, names, got)
			}
		}
		for _, name := range []string{"a", "b", "c", "d", "g", "h"} {
			if got := q.Counts(name); got != strings.Contains(want.counts, name) && name < "g" || got && name >= "g" {
				t.Errorf("%q: %s counts %v", lines, name, got)
			}
		}
	}
}

// TestTheEmergencyGroupIsAQuorum of its own, if it is a group (WIT-6).
func TestTheEmergencyGroupIsAQuorum(t *testing.T) {
	l, _ := working(t)
	three, _ := witnesses()
	q, err := l.Root.Quorum(three + "group emergency any c\nquorum a\n")
	must(t, err)
	waiver := q.Emergency()
	if q.Name() != "a" || waiver.Name() != verify.EmergencyGroup || !waiver.Counts("c") || waiver.Counts("a") {
		t.Errorf("quorum %s, in an emergency %s", q.Name(), waiver.Name())
	}
	for by, want := range map[string]bool{"wa": false, "wc": true} {
		if _, ok := waiver.Since(testlog.Cosigned(l.Signed(15), by, 5), 5); ok != want {
			t.Errorf("by %s: cosigned %v", by, ok)
		}
	}
	_, other := testlog.WitnessKey("wd")
	for _, lines := range []string{"quorum a\n", "witness emergency " + other + "\nquorum a\n"} {
		q, err := l.Root.Quorum(three + lines)
		must(t, err)
		if waiver := q.Emergency(); waiver != nil {
			t.Errorf("%q: %s", lines, waiver.Name())
		}
	}
}

// TestWitnessesAreListed as the policy names them, and asked one by one.
func TestWitnessesAreListed(t *testing.T) {
	l, _ := working(t)
	three, list := witnesses()
	three = strings.Replace(three, list[1].Key, list[1].Key+" https://b.example", 1)
	list[1].URL = "https://b.example"
	q, err := l.Root.Quorum(three + "group g any a b\nquorum c\n")
	must(t, err)
	got := q.Witnesses()
	if !slices.Equal(got, list) {
		t.Errorf("%+v, want %+v", got, list)
	}
	got[0].Name = "another"
	if again := q.Witnesses(); again[0].Name != "a" {
		t.Errorf("%+v", again)
	}
	signed := testlog.Cosigned(testlog.Cosigned(l.Signed(15), "wa", 5), "wa", math.MaxInt64)
	for name, want := range map[string]int64{"a": math.MaxInt64, "b": 0, "g": 0, "d": 0} {
		if at, ok := q.Cosigned(name, signed); at != want || ok != (want != 0) {
			t.Errorf("%s: cosigned %v at %d, want %d", name, ok, at, want)
		}
	}
}

// TestWhatIsNoCosignature: only the witness's own line counts, with a time that
// there is.
func TestWhatIsNoCosignature(t *testing.T) {
	l, _ := working(t)
	three, list := witnesses()
	q, err := l.Root.Quorum(three + "quorum a\n")
	must(t, err)
	good := testlog.Cosigned(l.Signed(15), "wa", 5)
	line := good[strings.LastIndex(good, "\u2014"):]
	encoded := strings.Fields(line)[2]
	raw, err := base64.StdEncoding.DecodeString(encoded)
	must(t, err)
	name, _, _ := strings.Cut(list[0].Key, "+")
	as := func(name string, raw []byte) string {
		return l.Signed(15) + "\u2014 " + name + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
	}
	otherHash := bytes.Clone(raw)
	otherHash[0] ^= 1
	later := bytes.Clone(raw)
	binary.BigEndian.PutUint64(later[4:], 6)
	for what, signed := range map[string]string{
		"another name":        as("other.example", raw),
		"another hash":        as(name, otherHash),
		"another time":        as(name, later),
		"half a time":         as(name, raw[:11]),
		"no signature":        as(name, raw[:12]),
		"loose bits":          loosen(good),
		"a time without end":  endless(l.Signed(15), "wa"),
		"no signed note":      "hello",
		"a note without text": "\n" + line,
	} {
		if at, ok := q.Since(signed, math.MaxInt64); ok || at != 0 {
			t.Errorf("%s: cosigned %v at %d", what, ok, at)
		}
	}
	for _, at := range []int64{0, 5, math.MaxInt64} {
		if since, ok := q.Since(testlog.Cosigned(l.Signed(15), "wa", at), math.MaxInt64); !ok || since != at {
			t.Errorf("cosigned %v at %d, want %d", ok, since, at)
		}
	}
}

// TestMLDSAWitnesses count by their verifier alone, and for the head that they
// have cosigned.
func TestMLDSAWitnesses(t *testing.T) {
	l, _ := working(t)
	skey, vkey, err := cosignature.GenerateMLDSAKey("w.example")
	must(t, err)
	signer, err := cosignature.NewMLDSASigner(skey)
	must(t, err)
	good := l.SignText(testlog.HeadText(l.Head(15)), signer)
	other := l.Signed(15) + strings.SplitAfterN(signatures(l.SignText(testlog.HeadText(l.Head(14)), signer)), "\n", 2)[1]
	root := l.Root
	root.Cosigner = cosignature.NewVerifierForCosignatureV1
	broken := l.Root
	broken.Cosigner = func(text string) (note.Verifier, error) {
		v, _ := cosignature.NewVerifierForCosignatureV1(text)
		return v, errors.New("no such library")
	}
	for _, c := range []struct {
		what   string
		root   verify.Root
		signed string
		want   bool
	}{
		{"its head", root, good, true},
		{"another head", root, other, false},
		{"no verifier", l.Root, good, false},
		{"a broken verifier", broken, good, false},
	} {
		q, err := c.root.Quorum("witness w " + vkey + "\nquorum w\n")
		must(t, err)
		if _, ok := q.Since(c.signed, math.MaxInt64); ok != c.want {
			t.Errorf("%s: cosigned %v, want %v", c.what, ok, c.want)
		}
		if _, ok := q.Cosigned("w", c.signed); ok != c.want {
			t.Errorf("%s: cosigned by w %v, want %v", c.what, ok, c.want)
		}
	}
}

// TestAnUnwatchedHeadIsNamed in the error of a root that wants witnesses.
func TestAnUnwatchedHeadIsNamed(t *testing.T) {
	l, _ := working(t)
	l.Root.Witnesses = testlog.WitnessPolicy()
	at, err := l.Root.Witnessed(l.Signed(15))
	if want := "verify: quorum g, which the root names, has not cosigned the tree head of size 15, nor a later one that continues it"; at != 0 || err == nil || err.Error() != want {
		t.Errorf("%d, %v, want %s", at, err, want)
	}
	at, err = l.Root.Witnessed("hello")
	if wantStep(t, err, verify.StepHead); at != 0 {
		t.Errorf("cosigned at %d", at)
	}
	at, err = l.Root.Witnessed(testlog.Cosigned(testlog.Cosigned(l.Signed(15), "w1", 7), "w3", 8))
	if must(t, err); at != 7 {
		t.Errorf("cosigned at %d", at)
	}
	m := verify.Material{Heads: []string{testlog.Cosigned(testlog.Cosigned(l.Signed(0), "w1", 0), "w3", 0)}}
	report, err := l.Root.Verify(m)
	must(t, err)
	if got := report.Checked[0].Detail; !strings.HasSuffix(got, "; quorum g has cosigned that of size 0, at 1970-01-01T00:00:00Z") {
		t.Errorf("checked %q", got)
	}
}

// endless returns a signed head with a good cosignature at the last time that its
// eight bytes can say, which is none that a clock shows.
func endless(signed, name string) string {
	text, _, _ := strings.Cut(signed, "\n\n")
	private, vkey := testlog.WitnessKey(name)
	sig := ed25519.Sign(private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", uint64(math.MaxUint64), text))
	fields := strings.SplitN(vkey, "+", 3)
	raw, _ := hex.DecodeString(fields[1])
	raw = append(binary.BigEndian.AppendUint64(raw, math.MaxUint64), sig...)
	return signed + "\u2014 " + fields[0] + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
}
