package bundle_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/verify/bundle"
)

// judged is a verdict on a bundle, as both verifiers give it.
type judged struct {
	Refused    string          `json:"refused"` // step and rule; empty: the bundle holds
	Confirmed  bool            `json:"confirmed"`
	Next       string          `json:"next"`
	Incident   uint64          `json:"incident"`
	Decision   map[string]any  `json:"decision"`
	Act        string          `json:"act"`
	Epoch      int64           `json:"epoch"`
	ExpiresAt  int64           `json:"expires_at"`
	DeadlineAt int64           `json:"deadline_at"`
	Commands   []judgedCommand `json:"commands"`
}

type judgedCommand struct {
	Exec     string             `json:"exec"`
	Method   string             `json:"method"`
	Effect   string             `json:"effect"`
	Line     string             `json:"line"`
	Digest   string             `json:"digest"`
	Released bool               `json:"released"`
	Waits    []string           `json:"waits"`
	Standing []string           `json:"standing"`
	Result   string             `json:"result"`
	Outcome  uint64             `json:"outcome"`
	Refused  string             `json:"refused"`
	Chain    []bundle.ChainStep `json:"chain"`
}

// judge has the Go code judge.
func judge(tb testing.TB, data []byte, a bundle.Accepted, now int64) judged {
	tb.Helper()
	b, err := bundle.Decode(data)
	if err != nil {
		wantFormat(tb, err)
		return judged{Refused: "form"}
	}
	v, err := b.Check(a, now)
	rule, refused := errors.AsType[*bundle.RuleError](err)
	if err != nil && !refused {
		tb.Fatalf("no verdict: %v", err)
	}
	j := judged{Confirmed: v.Confirmed, Next: encoded(tb, &v.Next), Incident: v.Incident, Act: string(v.Act), Epoch: v.Epoch,
		ExpiresAt: v.ExpiresAt, DeadlineAt: v.DeadlineAt}
	if refused {
		return judged{Refused: named(rule), Confirmed: v.Confirmed, Next: j.Next}
	}
	if len(v.Commands) > 0 {
		j.Decision = map[string]any{"index": float64(v.Decision.Index), "leaf_hash": v.Decision.LeafHash.String()}
	}
	for i := range v.Commands {
		c := &v.Commands[i]
		one := judgedCommand{Exec: string(c.Exec), Method: string(c.Method), Effect: string(c.Effect), Line: string(c.Line),
			Digest: string(c.Digest), Released: c.Released, Result: string(c.Result), Outcome: c.Outcome, Chain: c.Chain}
		for _, ref := range c.Waits {
			one.Waits = append(one.Waits, string(ref))
		}
		for _, ref := range c.Standing {
			one.Standing = append(one.Standing, string(ref))
		}
		if c.Refused != nil {
			one.Refused = named(c.Refused)
		}
		j.Commands = append(j.Commands, one)
	}
	return j
}

// plainly compares what stands in a verdict: an empty list is as none.
func plainly(j *judged) {
	for i := range j.Commands {
		c := &j.Commands[i]
		if len(c.Waits) == 0 {
			c.Waits = nil
		}
		if len(c.Standing) == 0 {
			c.Standing = nil
		}
		if c.Refused != "" { // a refused member is told why, and nothing else of it counts
			*c = judgedCommand{Exec: c.Exec, Method: c.Method, Result: c.Result, Outcome: c.Outcome, Refused: c.Refused}
		}
		if len(c.Chain) == 0 {
			c.Chain = nil
		}
	}
	if len(j.Commands) == 0 {
		j.Commands = nil
	}
}

// agree has both verifiers judge, and compares verdict, rule, commands and what is
// accepted from then on.
func agree(tb testing.TB, second *jsverify.Judge, c madeCase) (refused string) {
	tb.Helper()
	data, a, now := c.data, c.accepted, c.now
	want, got := judge(tb, data, a, now), judged{}
	second.Ask(jsverify.Bundle{Bundle: data, Accepted: encoded(tb, &a), Now: now}, &got)
	plainly(&want)
	plainly(&got)
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s: Go has -, JavaScript +:\n%s\nbundle %q\naccepted %s\nnow %d", c.name, diff, data, encoded(tb, &a), now)
	}
	return want.Refused
}

// TestJavaScriptJudgesEveryCase has verify/js judge the named cases.
func TestJavaScriptJudgesEveryCase(t *testing.T) {
	second := jsverify.Start(t)
	for _, c := range bundleCases() {
		_, b, a, now := c.build(t)
		data, err := json.Marshal(b)
		must(t, err)
		agree(t, second, madeCase{c.name, data, a, now})
	}
	w, _ := automatic(t, plain)
	for name, c := range formCases() {
		_, text := c.text(t)
		agree(t, second, madeCase{name, text, w.state(), w.now})
	}
}

// madeCase is a case as it was made.
type madeCase struct {
	name     string
	data     []byte
	accepted bundle.Accepted
	now      int64
}

// TestJavaScriptAgreesChaos has verify/js judge random changes of bundles, of what is
// signed and of bytes: both verifiers must say the same.
func TestJavaScriptAgreesChaos(t *testing.T) {
	count := budget.Budget{Short: 300, Usual: 300, Chaos: 500_000}.Now()
	second := jsverify.Start(t)
	rules := changedBundles(t, count, func(c madeCase) string { return agree(t, second, c) })
	for rule := range strings.FieldsSeq("form AGT-1 AGT-2 AGT-3") {
		if rules[rule] == 0 {
			t.Errorf("nothing was refused by %s", rule)
		}
	}
	t.Log(rules)
}

// changedBundles changes bundles, and the time, at random, and counts what agrees says of each.
func changedBundles(t *testing.T, count int, agrees func(madeCase) string) map[string]int {
	t.Helper()
	return changesOf(t, encodedCases(t, count), budget.Seed(t), count, agrees)
}

// encodedCases returns the named cases, no more than count: each takes longer than its verdict.
func encodedCases(t *testing.T, count int) (cases []madeCase) {
	t.Helper()
	for _, c := range bundleCases() {
		if len(cases) >= count {
			break
		}
		_, b, a, now := c.build(t)
		good, err := json.Marshal(b)
		must(t, err)
		cases = append(cases, madeCase{c.name, good, a, now})
	}
	return cases
}

// changesOf makes count changes of cases, the same ones for a seed.
func changesOf(t *testing.T, cases []madeCase, seed uint64, count int, agrees func(madeCase) string) map[string]int {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	rules := map[string]int{}
	for i := 0; i < count && !t.Failed(); i++ {
		c := cases[random.IntN(len(cases))]
		switch random.IntN(8) {
		case 0:
			c.data = randomBytes(random, c.data)
		case 1:
			c.now += []int64{-3_600_000, -300_001, 1, 60_000, 3_600_000, 90_000_000}[random.IntN(6)]
		default:
			c.data = randomChange(t, random, c.data)
		}
		c.name = fmt.Sprintf("%s, change %d", c.name, i)
		rules[agrees(c)]++
	}
	return rules
}

// randomBytes changes a byte, or cuts or doubles a part.
func randomBytes(random *rand.Rand, good []byte) []byte {
	data := append([]byte{}, good...)
	i := random.IntN(len(data))
	switch n := min(random.IntN(8), len(data)-i); random.IntN(4) {
	case 0:
		data[i] ^= 1 << random.IntN(8)
	case 1:
		const marks = "{}[]\",:0-1eE. \n\\u\x80\xff"
		data[i] = marks[random.IntN(len(marks))]
	case 2:
		data = append(data[:i], data[i+n:]...)
	default:
		data = append(data[:i], append(append([]byte{}, data[i:i+n]...), data[i:]...)...)
	}
	return data
}

// BenchmarkJavaScript checks the bundle of 10 members in a plan of 100,000 by both verifiers.
func BenchmarkJavaScript(b *testing.B) {
	made, a, now := large(b)
	data, err := made.Encode()
	must(b, err)
	b.Run("go", func(b *testing.B) {
		for b.Loop() {
			read, err := bundle.Decode(data)
			must(b, err)
			_, err = read.Check(a, now)
			must(b, err)
		}
	})
	b.Run("javascript", func(b *testing.B) {
		second := jsverify.Start(b)
		question := jsverify.Bundle{Bundle: data, Accepted: encoded(b, &a), Now: now}
		for range 50 { // until its code is compiled
			second.Ask(question, &judged{})
		}
		for b.Loop() {
			var got judged
			if second.Ask(question, &got); got.Refused != "" {
				b.Fatal(got.Refused)
			}
		}
	})
}
