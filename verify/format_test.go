package verify_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

func encoded[T interface{ Encode() ([]byte, error) }](tb testing.TB, v T) string {
	tb.Helper()
	data, err := v.Encode()
	must(tb, err)
	return string(data)
}

func tlogProof(tb testing.TB, r verify.Receipt) string {
	tb.Helper()
	data, err := r.TLogProof()
	must(tb, err)
	return string(data)
}

func TestAReceiptSurvivesItsJSON(t *testing.T) {
	l, _ := working(t)
	for _, r := range []verify.Receipt{l.Receipt(9), l.ReceiptAt(0, 1)} { // the second has an empty proof
		again, err := verify.DecodeReceipt([]byte(encoded(t, r)))
		must(t, err)
		if diff := cmp.Diff(r, again); diff != "" {
			t.Error(diff)
		}
	}
}

// TestReceiptJSONHasOneForm tries other spellings of a good receipt.
func TestReceiptJSONHasOneForm(t *testing.T) {
	l, _ := working(t)
	good := encoded(t, l.Receipt(9))
	p := `,"proof":[`
	untilProof, _, _ := strings.Cut(good, p)
	untilHead, head, _ := strings.Cut(good, `,"head":`)
	_, fromIndex, _ := strings.Cut(good, `"index"`)
	head = `,"head":` + head
	cases := map[string]string{
		"white space":             strings.Replace(good, p, ` `+p, 1),
		"a line break at the end": good + "\n",
		"another order":           `{"index":9,` + strings.Replace(good[1:], `"index":9,`, "", 1),
		"a member twice":          strings.Replace(good, `"index":9`, `"index":9,"index":9`, 1),
		"an unknown member":       strings.Replace(good, `"index":9`, `"index":9,"x":1`, 1),
		"a name in capitals":      strings.Replace(good, `"index"`, `"Index"`, 1),
		"a fraction":              strings.Replace(good, `"index":9`, `"index":9.0`, 1),
		"an exponent":             strings.Replace(good, `"index":9`, `"index":9e0`, 1),
		"a negative index":        strings.Replace(good, `"index":9`, `"index":-9`, 1),
		"an index as text":        strings.Replace(good, `"index":9`, `"index":"9"`, 1),
		"an escaped letter":       strings.Replace(good, `"head":"l`, `"head":"\u006c`, 1),
		"an escaped dash":         strings.Replace(good, "\u2014", `\u2014`, 1),
		"null for the proof":      untilProof + `,"proof":null` + head,
		"no proof":                untilProof + head,
		"no leaf":                 `{"index"` + fromIndex,
		"no index":                strings.Replace(good, `"index":9,`, "", 1),
		"no head":                 untilHead + "}",
		"a hash of 31 bytes":      strings.Replace(good, p, p+`"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",`, 1),
		"a hash in URL base64":    strings.Replace(good, p, p+`"_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",`, 1),
		"a hash with loose bits":  strings.Replace(good, p, p+`"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=",`, 1),
		"a list":                  "[" + good + "]",
		"two":                     good + good,
		"cut short":               good[:len(good)-1],
		"nothing":                 "",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := verify.DecodeReceipt([]byte(text))
			wantFormat(t, err)
		})
	}
}

func TestAConsistencyProofSurvivesItsJSON(t *testing.T) {
	l, _ := working(t)
	p := l.Joining(7, 15).Consistency[0]
	again, err := verify.DecodeConsistency([]byte(encoded(t, p)))
	must(t, err)
	if diff := cmp.Diff(p, again); diff != "" {
		t.Error(diff)
	}
	older, newer, err := l.Root.Consistency(verify.ConsistencyProof{Older: l.Signed(7), Newer: l.Signed(15), Path: again.Path})
	if err != nil || older != l.Head(7) || newer != l.Head(15) {
		t.Errorf("heads %v and %v, error %v", older, newer, err)
	}
}

func TestConsistencyOfEveryPairOfSizes(t *testing.T) {
	l, _ := working(t)
	for newer := range len(l.Leaves) + 1 {
		for older := range newer + 1 {
			if _, _, err := l.Root.Consistency(l.Consistency(older, newer)); err != nil {
				t.Errorf("%d and %d: %v", older, newer, err)
			}
		}
	}
}

func TestABadConsistencyProofIsRefused(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t)
	cases := []struct {
		name string
		do   func(p *verify.ConsistencyProof)
		want verify.Step
	}{
		{"heads swapped", func(p *verify.ConsistencyProof) { p.Older, p.Newer = p.Newer, p.Older }, verify.StepConsistency},
		{"path dropped", func(p *verify.ConsistencyProof) { p.Path = nil }, verify.StepConsistency},
		{"path shorter", func(p *verify.ConsistencyProof) { p.Path = p.Path[1:] }, verify.StepConsistency},
		{"path longer", func(p *verify.ConsistencyProof) { p.Path = append(p.Path, merkle.Hash{}) }, verify.StepConsistency},
		{"path of another pair", func(p *verify.ConsistencyProof) { p.Path = l.Consistency(7, 14).Path }, verify.StepConsistency},
		{"newer head of a fork", func(p *verify.ConsistencyProof) { p.Newer = fork.Signed(15) }, verify.StepConsistency},
		{"older head changed", func(p *verify.ConsistencyProof) { p.Older = strings.Replace(p.Older, "\n11\n", "\n10\n", 1) }, verify.StepHead},
		{"newer head dropped", func(p *verify.ConsistencyProof) { p.Newer = "" }, verify.StepHead},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := l.Consistency(11, 15)
			tc.do(&p)
			_, _, err := l.Root.Consistency(p)
			wantStep(t, err, tc.want)
			_, err = l.Root.Verify(verify.Material{Heads: []string{p.Older, p.Newer}, Consistency: []verify.Consistency{{Old: 11, New: 15, Path: p.Path}}})
			if tc.name != "heads swapped" { // the sizes say which is which
				wantStep(t, err, tc.want)
			}
		})
	}
}

func TestTLogProofHasOneForm(t *testing.T) {
	l, _ := working(t)
	good := tlogProof(t, l.Receipt(9))
	first := l.Receipt(9).Proof[0].String()
	noHead, _, _ := strings.Cut(good, "\n\n")
	cases := map[string]string{
		"another header":       strings.Replace(good, "@v1", "@v2", 1),
		"an extra line":        strings.Replace(good, "index", "extra AAAA\nindex", 1),
		"no index":             strings.Replace(good, "index 9\n", "", 1),
		"a leading zero":       strings.Replace(good, "index 9", "index 09", 1),
		"no header":            strings.TrimPrefix(good, "c2sp.org/tlog-proof@v1\n"),
		"a bare number":        strings.Replace(good, "index 9", "9", 1),
		"a sign":               strings.Replace(good, "index 9", "index +9", 1),
		"an index too large":   strings.Replace(good, "index 9", "index 18446744073709551616", 1),
		"carriage returns":     strings.ReplaceAll(good, "\n", "\r\n"),
		"a hash with a space":  strings.Replace(good, first, first+" ", 1),
		"a hash cut short":     strings.Replace(good, first, first[:40], 1),
		"no empty line":        strings.Replace(good, "\n\n", "\n", 2),
		"no head":              noHead + "\n\n",
		"nothing after header": "c2sp.org/tlog-proof@v1\n",
		"nothing":              "",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := verify.ParseTLogProof([]byte(text))
			wantFormat(t, err)
			if name == "an extra line" && !strings.Contains(err.Error(), "put the leaf beside the proof") {
				t.Errorf("error %v without the remedy", err)
			}
		})
	}
}

// TestATLogProofSaysWhatItLacks: the error names what is not as it should be.
func TestATLogProofSaysWhatItLacks(t *testing.T) {
	for text, want := range map[string]string{
		"hello\n": `the first line is not "c2sp.org/tlog-proof@v1"`,
		"c2sp.org/tlog-proof@v1\nindex 9\n\u2014 a b\n":  "no empty line before the tree head",
		"c2sp.org/tlog-proof@v1\nindex 09\nhash\n\nhead": `"index 09" is not index and a decimal number without leading zeros`,
	} {
		_, err := verify.ParseTLogProof([]byte(text))
		wantText(t, err, "verify: tlog-proof: "+want)
	}
	largest := verify.Receipt{Index: math.MaxUint64, Proof: []merkle.Hash{}, Head: "head"}
	again, err := verify.ParseTLogProof([]byte(tlogProof(t, largest)))
	must(t, err)
	if diff := cmp.Diff(largest, again); diff != "" {
		t.Error(diff)
	}
}

// TestAnotherFormIsShownWhereItBegins, also where one form begins the other.
func TestAnotherFormIsShownWhereItBegins(t *testing.T) {
	for data, at := range map[string]string{"{1,2]": "0", "[1,3]": "3", "[1,2": "4", "[1,2]\n": "5", "": "0"} {
		wantText(t, verify.CheckForm("list", []byte(data), []int{1, 2}),
			"verify: list: not in the one form it is written in, from byte "+at+" (pass it on as it was received)")
	}
	must(t, verify.CheckForm("list", []byte("[1,2]"), []int{1, 2}))
	wantFormat(t, verify.CheckForm("text", nil, "\xff")) // which has no form
}

func TestATLogProofIsCheckedWithTheLeafBesideIt(t *testing.T) {
	l, _ := working(t)
	files := func(names ...string) (m verify.Material) {
		for _, name := range names {
			var index int
			var kind string
			_, err := fmt.Sscanf(name, "%d.%s", &index, &kind)
			must(t, err)
			data := string(l.Leaves[index]) + "\n"
			if kind == "tlog-proof" {
				data = tlogProof(t, l.Receipt(uint64(index)))
			}
			must(t, m.Add(name, []byte(data)))
		}
		return m
	}
	report, err := l.Root.Verify(files("9.tlog-proof", "10.leaf", "9.leaf", "0.tlog-proof", "0.leaf"))
	must(t, err)
	if got, want := counts(report), "head 1, leaf 2, inclusion 2, order 2, audience 2, signer 1, signature 1"; got != want {
		t.Errorf("checked %s, want %s", got, want)
	}
	if got := notChecked(report); len(got) != 2 || got[0] != "that leaf 1 of those given is in the log" {
		t.Errorf("not checked %q", got)
	}
	report, err = l.Root.Verify(files("9.tlog-proof"))
	must(t, err)
	if got := notChecked(report); len(got) != 1 || got[0] != "that the .tlog-proof of entry 9 proves anything" || counts(report) != "head 1" {
		t.Errorf("without its leaf: checked %s, not checked %q", counts(report), got)
	}
	_, err = l.Root.Verify(files("9.tlog-proof", "10.leaf"))
	wantStep(t, err, verify.StepInclusion)
}

// TestFilesAreToldByTheirContent adds every shape under a name that says
// nothing.
func TestFilesAreToldByTheirContent(t *testing.T) {
	l, _ := working(t)
	receipt, consistency := encoded(t, l.Receipt(9)), encoded(t, l.Joining(7, 15).Consistency[0])
	pretty := strings.NewReplacer(`","`, "\",\n  \"", `,"`, ",\n  \"", `":`, `": `).Replace(receipt) + "\n"
	cases := []struct {
		name, data string
		want       verify.Material
	}{
		{"a receipt", receipt, verify.Material{Receipts: []verify.Receipt{l.Receipt(9)}}},
		{"a receipt for people", pretty, verify.Material{Receipts: []verify.Receipt{l.Receipt(9)}}},
		{"receipts, one a line", receipt + "\n" + encoded(t, l.Receipt(3)) + "\n", verify.Material{Receipts: []verify.Receipt{l.Receipt(9), l.Receipt(3)}}},
		{"a leaf", string(l.Leaves[9]), verify.Material{Leaves: [][]byte{l.Leaves[9]}}},
		{"a consistency proof", consistency, verify.Material{Consistency: l.Joining(7, 15).Consistency}},
		{"all in one", receipt + consistency + string(l.Leaves[9]), verify.Material{Receipts: []verify.Receipt{l.Receipt(9)},
			Consistency: l.Joining(7, 15).Consistency, Leaves: [][]byte{l.Leaves[9]}}},
		{"a tree head in JSON", fmt.Sprintf(`{"head":%q}`, "note\n"), verify.Material{Heads: []string{"note\n"}}},
		{"a tree head", l.Signed(15), verify.Material{Heads: []string{l.Signed(15)}}},
		{"a .tlog-proof", tlogProof(t, l.Receipt(9)), verify.Material{Proofs: []verify.Receipt{{Index: 9, Proof: l.Receipt(9).Proof, Head: l.Signed(15)}}}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var m verify.Material
			must(t, m.Add("file", []byte(tc.data)))
			if diff := cmp.Diff(tc.want, m); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnknownFilesAreRefusedWithARemedy adds what nothing can be proven of.
func TestUnknownFilesAreRefusedWithARemedy(t *testing.T) {
	l, c := working(t)
	receipt := encoded(t, l.Receipt(9))
	envelope := string(c.agent.Sign(t, l.Execution(c.agent)).AppendEnvelope(nil))
	hash, note := merkle.Hash{}.String(), strings.Repeat("a", verify.MaxNote)
	must(t, new(verify.Material).Add("file", []byte(`{"head":"`+note+`"}`)))
	cases := []struct {
		name, data, detail string
		remedy             bool
	}{
		{"nothing", "", "neither a receipt", true},
		{"prose", "hello", "neither a receipt", true},
		{"a list", "[" + receipt + "]", "neither a receipt", true},
		{"another object", `{"a":1}`, "no receipt, leaf, page of entries, history, consistency proof", true},
		{"a finding of fsck", `{"data":"d","name":"f","key":"","what":"damaged"}`, "that arl log fsck found in one data directory", true},
		{"a page with another envelope", `{"head":"x","entries":[{"index":0,"registered_at":1,"envelope":{},"proof":[]}]}`, "page: entries[0]", false},
		{"a page with a path out of size", strings.Replace(pageOf(t, l, 9), `"proof":[`, `"proof":[`+strings.Repeat(`"`+hash+`",`, verify.MaxPath),
			1), "page: entries[0]: verify: receipt: a proof of 69 hashes, the limit is 65", false},
		{"a page without a tree head", `{"entries":[]}`, "an object that is no receipt, leaf", true},
		{"a tree head and another word", `{"head":"x","tail":"y"}`, "an object that is no receipt, leaf", true},
		{"a tree head of no text", `{"head":1}`, "a tree head that is no text of 1 to 131072 bytes", false},
		{"an empty tree head", `{"head":""}`, "a tree head that is no text of 1 to 131072 bytes", false},
		{"a long tree head", `{"head":"` + note + `a"}`, "a tree head that is no text of 1 to 131072 bytes", false},
		{"half a damage", `{"what":"x"}`, "an object that is no receipt, leaf", true},
		{"the other half", `{"data":"x"}`, "an object that is no receipt, leaf", true},
		{"a page of no list", `{"head":"x","entries":1}`, "page: json: ", false},
		{"a proof alone", `{"proof":[]}`, "an object that is no receipt, leaf", true},
		{"evidence of no list", `{"evidence":{"a":1}}`, "page: evidence: ", false},
		{"a receipt and a list", receipt + "[1]", "JSON: not an object: ", false},
		{"an entry out of a page", `{"index":0,"registered_at":1,"envelope":{},"proof":[]}`, "without the tree head", true},
		{"a bare envelope", envelope, "a bare envelope", true},
		{"a pinned root", encoded(t, l.Root), "a pinned root", true},
		{"broken JSON", receipt[:100], "JSON", false},
		{"a receipt and half of one", receipt + "\n" + receipt[:100], "JSON", false},
		{"a receipt and prose", receipt + "\nhello", "JSON", false},
		{"a receipt with another member", strings.Replace(receipt, `"index"`, `"x":1,"index"`, 1), "receipt", false},
		{"a member twice", strings.Replace(receipt, `"index":9`, `"index":9,"index":9`, 1), "JSON", false},
		{"half a .tlog-proof", tlogProof(t, l.Receipt(9))[:60], "tlog-proof", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m := verify.Material{Heads: []string{"kept"}}
			err := m.Add("some-file", []byte(tc.data))
			wantFormat(t, err)
			if !strings.HasPrefix(err.Error(), "verify: some-file: ") || !strings.Contains(err.Error(), tc.detail) || strings.HasSuffix(err.Error(), ")") != tc.remedy {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(verify.Material{Heads: []string{"kept"}}, m); diff != "" {
				t.Errorf("partial result: %s", diff)
			}
		})
	}
}

func TestARootSurvivesItsFile(t *testing.T) {
	l, _ := working(t)
	l.Root.Witnesses = "log x\nquorum none\n"
	again, err := verify.ParseRoot([]byte(encoded(t, l.Root)))
	must(t, err)
	if diff := cmp.Diff(l.Root, again); diff != "" {
		t.Error(diff)
	}
	report, err := again.Verify(verify.Material{Receipts: l.All()})
	must(t, err)
	if !slices.Contains(report.NotChecked, "witnesses: the root names none, so that a fork shown to nobody else stays unseen") {
		t.Errorf("not checked %q", report.NotChecked)
	}
}

// TestARootBringsAHeadOfItsOwn: a head that the root's keys have not signed is refused with it.
func TestARootBringsAHeadOfItsOwn(t *testing.T) {
	l, _ := working(t)
	l.Root.Seen = l.Signed(9)
	again, err := verify.ParseRoot([]byte(encoded(t, l.Root)))
	must(t, err)
	if again.Seen != l.Root.Seen {
		t.Errorf("head %q, want %q", again.Seen, l.Root.Seen)
	}
	l.Signer = testlog.OtherSigner(t)
	l.Root.Seen = l.Signed(9)
	_, err = l.Root.Encode()
	if wantFormat(t, err); !strings.Contains(err.Error(), "leave the head out") {
		t.Errorf("error %v", err)
	}
}

// TestABadRootIsRefused holds to the draft: TRU-1.
func TestABadRootIsRefused(t *testing.T) {
	l, _ := working(t)
	good := encoded(t, l.Root)
	vkey := l.Root.LedgerKeys[0]
	small, err := note.NewEd25519VerifierKey(testlog.Origin, append([]byte{1}, make([]byte, 31)...)) // the identity point
	must(t, err)
	foreign, err := note.NewEd25519VerifierKey("ledger.example/other", bytes.Repeat([]byte{7}, 32))
	must(t, err)
	noGenesis, _, _ := strings.Cut(good, ",\n  \"genesis\"")
	with := func(key string) string { return strings.Replace(good, vkey, key, 1) }
	cases := map[string]string{
		"nothing":                 "",
		"a list":                  "[" + good + "]",
		"an unknown member":       strings.Replace(good, `"origin"`, `"x":1,"origin"`, 1),
		"a member twice":          strings.Replace(good, `"origin"`, `"origin":"`+testlog.Origin+`","origin"`, 1),
		"no origin":               strings.Replace(good, `"origin": "`+testlog.Origin+`",`, "", 1),
		"no keys":                 strings.Replace(good, `"`+vkey+`"`, "", 1),
		"no genesis":              noGenesis + "}",
		"another origin":          strings.Replace(good, `"origin": "`+testlog.Origin, `"origin": "ledger.example/other`, 1),
		"an origin with a space":  strings.ReplaceAll(good, "ledger.example", "ledger example"),
		"a short genesis":         strings.Replace(good, l.Root.Genesis.String(), "AAAA", 1),
		"a key twice":             strings.Replace(good, `"`+vkey+`"`, `"`+vkey+`","`+vkey+`"`, 1),
		"a key of another name":   with(foreign),
		"a key of small order":    with(small),
		"a key with another hash": with(strings.Replace(vkey, vkey[len(testlog.Origin)+1:len(testlog.Origin)+9], "00000000", 1)),
		"a key in capitals":       with(strings.Replace(vkey, vkey[len(testlog.Origin)+1:len(testlog.Origin)+9], strings.ToUpper(vkey[len(testlog.Origin)+1:len(testlog.Origin)+9]), 1)),
		"a key of another type":   with("example.com/foo+530d903a+BOkyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"),
		"a key that is none":      with("hello"),
		"a private key":           with("PRIVATE+KEY+" + vkey),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := verify.ParseRoot([]byte(text))
			wantFormat(t, err)
		})
	}
}
