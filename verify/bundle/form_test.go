package bundle_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// formCase is a bundle with one change, which is or is not of the form of a bundle.
type formCase struct {
	desc   string
	change func(b *bundle.Bundle)
	want   string // part of the error; empty: it is of the form
}

// bare is a bundle that is of the form and proves nothing.
func bare(members int) *bundle.Bundle {
	b := &bundle.Bundle{Agent: "worker", Decision: 1, Head: "h"}
	for i := range members {
		b.Members = append(b.Members, bundle.PlanMember{Place: uint64(i), Member: entry.Member{Agent: "worker", Exec: "worker#1"}})
	}
	return b
}

// formCases are bundles by the name of their vector. Each is made of a bare bundle of
// three members.
func formCases() map[string]formCase {
	longest := entry.Principal(strings.Repeat("a", 2*entry.MaxName+1))
	cases := map[string]formCase{
		"form-held-agent":     {"the first and the last character that a name may have", func(b *bundle.Bundle) { b.Agent = " ~" }, ""},
		"form-agent-empty":    {"no agent", func(b *bundle.Bundle) { b.Agent = "" }, "is not a principal"},
		"form-head-empty":     {"no head", func(b *bundle.Bundle) { b.Head = "" }, "a tree head of 0 bytes"},
		"form-members-alone":  {"members without a decision", func(b *bundle.Bundle) { b.Decision = 0 }, "without a decision"},
		"form-both-alone":     {"as many steps as members without a decision", func(b *bundle.Bundle) { b.Decision = 0; steps(seed(1), seed(2), seed(3))(b) }, "without a decision"},
		"form-held-longest":   {"the longest name that there may be", func(b *bundle.Bundle) { b.Agent = longest }, ""},
		"form-agent-longer":   {"a name that is longer", func(b *bundle.Bundle) { b.Agent = longest + "a" }, "is not a principal"},
		"form-decision-alone": {"a decision without members", func(b *bundle.Bundle) { b.Members = nil }, "a decision without members"},
		"form-entries-equal":  {"two entries of one index", func(b *bundle.Bundle) { b.Entries = leavesAt(3, 3) }, "entries[1]: index 3 does not ascend"},
		"form-index-alone":    {"an index without subjects", func(b *bundle.Bundle) { b.Index = 1 }, "an index without subjects"},
		"form-subjects-alone": {"subjects without an index", func(b *bundle.Bundle) { b.Subjects = aboutLog() }, "subjects without an index"},
		"form-prefix-alone":   {"a proof of subjects without an index", func(b *bundle.Bundle) { b.Prefix = make([]verify.Sibling, 1) }, "subjects without an index"},
		"form-index-news": {"an index in a bundle of news", func(b *bundle.Bundle) {
			*b = bundle.Bundle{Agent: "worker", Head: "h", Index: 1}
			b.Subjects = aboutLog()
		}, "an index without a decision"},
		"form-held-index":   {"an index with its subject", func(b *bundle.Bundle) { b.Index, b.Subjects = 1, aboutLog() }, ""},
		"form-places-equal": {"two members at one place", func(b *bundle.Bundle) { b.Members[1].Place = 0 }, "members[1]: place 0 does not ascend"},
		"form-places-fall":  {"the places of members fall", func(b *bundle.Bundle) { b.Members[0].Place = 9 }, "members[1]: place 1 does not ascend"},
		"form-after-itself": {"a member after itself", func(b *bundle.Bundle) { b.Members[0].After = []uint64{0} }, "members[0]: after place 0"},
		"form-after-later":  {"a member after a later one", func(b *bundle.Bundle) { b.Members[1].After = []uint64{0, 2} }, "members[1]: after place 2"},
		"form-after-twice":  {"a member after another, twice", func(b *bundle.Bundle) { b.Members[2].After = []uint64{0, 0} }, "members[2]: after place 0"},
		"form-after-falls":  {"a member after others, which do not ascend", func(b *bundle.Bundle) { b.Members[2].After = []uint64{1, 0} }, "members[2]: after place 0"},
		"form-held-after":   {"a member after both others", func(b *bundle.Bundle) { b.Members[2].After = []uint64{0, 1} }, ""},
		"form-steps-equal":  {"two steps to one execution", steps(seed(3), seed(3)), "steps[1]: to 3"},
		"form-steps-fall":   {"steps that fall", steps(seed(3), seed(2)), "steps[1]: to 2"},
		"form-held-steps": {"a step of each rule", steps(bundle.ChainStep{Exec: 0, Rule: bundle.RuleSeed},
			bundle.ChainStep{Exec: 1, Rule: bundle.RuleDependent}, bundle.ChainStep{Exec: 2, Rule: bundle.RuleLine, By: 1, Checkpoint: 1}), ""},
		"form-rule-unknown":    {"a step by a rule that nobody knows", steps(bundle.ChainStep{Rule: "SCO-9"}), `rule "SCO-9"`},
		"form-seed-by":         {"a seed by another execution", steps(bundle.ChainStep{Rule: bundle.RuleSeed, By: 1}), "by 1"},
		"form-seed-checkpoint": {"a seed with a checkpoint", steps(bundle.ChainStep{Rule: bundle.RuleSeed, Checkpoint: 1}), "checkpoint 1"},
		"form-dependent-by":    {"a dependent by another execution", steps(bundle.ChainStep{Rule: bundle.RuleDependent, By: 1}), "by 1"},
	}
	for name, c := range map[string]string{"quote": `a"b`, "backslash": `a\b`, "control": "a\x1fb", "delete": "a\x7fb"} {
		cases["form-agent-"+name] = formCase{"a character that no name has, in the agent: " + name, func(b *bundle.Bundle) { b.Agent = entry.Principal(c) }, "is not a principal"}
	}
	for name, of := range map[string]func(m *entry.Member) *string{
		"agent":      func(m *entry.Member) *string { return (*string)(&m.Agent) },
		"exec":       func(m *entry.Member) *string { return (*string)(&m.Exec) },
		"checkpoint": func(m *entry.Member) *string { return (*string)(&m.Checkpoint) },
		"method":     func(m *entry.Member) *string { return (*string)(&m.Method) },
	} {
		cases["form-member-"+name] = formCase{"a quote in the " + name + " of a member", func(b *bundle.Bundle) { *of(&b.Members[1].Member) = `a"b` }, "members[1]: \"a\\\"b\" is no name"}
	}
	return cases
}

func steps(list ...bundle.ChainStep) func(b *bundle.Bundle) {
	return func(b *bundle.Bundle) { b.Steps = list }
}

func seed(exec uint64) bundle.ChainStep { return bundle.ChainStep{Exec: exec, Rule: bundle.RuleSeed} }

func leavesAt(indexes ...uint64) (list []bundle.Leaf) {
	for _, index := range indexes {
		list = append(list, bundle.Leaf{Index: index, Bytes: []byte(`{}`)})
	}
	return list
}

// aboutLog is a subject that the index has nothing about.
func aboutLog() []verify.SubjectProof {
	return []verify.SubjectProof{{Subject: entry.Subject{Type: entry.SubjectLog}}}
}

// text writes the bundle of a case, whatever its form.
func (c formCase) text(tb testing.TB) (*bundle.Bundle, []byte) {
	tb.Helper()
	b := bare(3)
	c.change(b)
	data, err := json.Marshal(b)
	must(tb, err)
	return b, data
}

// TestBundleForm has who writes, who reads and who checks a bundle look at its form.
func TestBundleForm(t *testing.T) {
	w, _ := automatic(t, plain)
	for name, c := range formCases() {
		b, data := c.text(t)
		_, written := b.Encode()
		read, got := bundle.Decode(data)
		_, checked := b.Check(w.state(), w.now)
		if c.want == "" {
			if written != nil || got != nil || outcomeOf(bundle.Verdict{}, checked, "") == "form" || encoded(t, read) != string(data) {
				t.Errorf("%s: written %v, read %v, checked %v", name, written, got, checked)
			}
			continue
		}
		for what, err := range map[string]error{"written": written, "read": got, "checked": checked} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: error %v, want %q", name, what, err, c.want)
				continue
			}
			wantFormat(t, err)
		}
	}
}

// TestBundleMemberProofs gives each member as many hashes as a proof may have.
func TestBundleMemberProofs(t *testing.T) {
	for past := range 2 {
		b := bare(3)
		b.Membership = make([]merkle.Hash, 3*verify.MaxPath+past)
		if _, err := b.Encode(); (err != nil) != (past == 1) {
			t.Errorf("%d past the limit: %v", past, err)
		}
	}
}
