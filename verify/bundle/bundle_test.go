package bundle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// told says of each command what the agent is to do.
func told(v bundle.Verdict) (list []string) {
	for _, c := range v.Commands {
		text := fmt.Sprintf("%s %s", c.Exec, c.Method)
		if c.Checkpoint != "" {
			text += " to " + string(c.Checkpoint)
		}
		switch {
		case c.Refused != nil:
			text += " refused"
		case c.Result != "":
			text += " " + string(c.Result)
		case !c.Released:
			text += fmt.Sprintf(" waits for %v", c.Waits)
		}
		if c.Standing != nil {
			text += fmt.Sprintf(" with %v standing", c.Standing)
		}
		list = append(list, text)
	}
	return list
}

// TestBundleCommands says what good bundles tell the worker to do.
func TestBundleCommands(t *testing.T) {
	want := map[string][]string{
		"good-automatic": {
			"worker#charge compensate", "worker#memo restore to worker#c0 waits for [worker#charge]", "worker#note none", "worker#later cancel",
			"worker#draft restore to worker#c0 waits for [worker#charge]",
		},
		"good-approved": {
			"worker#mail residual", "worker#charge compensate compensated", "worker#memo restore to worker#c0 with [worker#mail] standing",
			"worker#note none", "worker#later cancel", "worker#draft restore to worker#c0 with [worker#mail] standing",
		},
		"good-waits": {
			"worker#charge compensate waits for [writer#page]", "worker#memo restore to worker#c0 waits for [worker#charge]", "worker#note none",
			"worker#later cancel", "worker#draft restore to worker#c0 waits for [worker#charge]",
		},
		"good-whole-line": {
			"worker#charge compensate waits for [writer#page]", "worker#memo residual", "worker#note none", "worker#later cancel", "worker#draft residual",
		},
		"good-news": nil,
	}
	for _, c := range bundleCases() {
		commands, ok := want[c.name]
		if !ok {
			continue
		}
		delete(want, c.name)
		w, b, a, now := c.build(t)
		v, err := b.Check(a, now)
		must(t, err)
		if got := told(v); !slices.Equal(got, commands) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(commands, "\n"))
		}
		if b.Decision == 0 {
			continue
		}
		if v.Incident != w.at["signal"] || v.Decision != w.refTo("decision") || v.Act != entry.ActAuthorize || !v.Confirmed {
			t.Errorf("%s: %+v", c.name, v)
		}
		for _, command := range v.Commands {
			restore := command.Method == entry.MethodRestore
			if restore != (command.Digest == zero) || command.Wid != "workflow" || command.Chain[0].Rule != bundle.RuleSeed ||
				command.Chain[len(command.Chain)-1].Exec != command.Index {
				t.Errorf("%s: %+v", c.name, command)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no case for %v", want)
	}
}

// TestBundleReport reads the report of a good bundle: every step in the order of
// the protocol, and what was not checked.
// Draft: AGT-8.
func TestBundleReport(t *testing.T) {
	w, b := approved(t, plain)
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	var rules []string
	for _, p := range v.Checked {
		rules = append(rules, p.Step+" "+p.Rule)
	}
	want := []string{"AGT-1 head", "AGT-1 consistency", "AGT-1 inclusion", "AGT-2 act", "AGT-2 TRU-1", "AGT-2 TRU-2", "AGT-2 aud", "AGT-2 TRU-3",
		"AGT-2 exp", "AGT-2 SCO-3", "AGT-2 INC-5", "AGT-2 epoch", "AGT-3 SCO-5", "AGT-3 INC-6", "AGT-3 leaf_hash", "AGT-3 INC-7"}
	if !slices.Equal(rules, want) {
		t.Errorf("checked %v, want %v", rules, want)
	}
	if line := v.Checked[10].String(); line != "AGT-2 INC-5 (2): distinct approvers, enrolled before the incident; 2 were needed" {
		t.Errorf("%q", line)
	}
	not := strings.Join(v.NotChecked, "\n")
	for _, text := range []string{"witnesses: none are named", "a newer usable checkpoint", "a later policy, revocation or decision", "registered_at", "arl log audit"} {
		if !strings.Contains(not, text) {
			t.Errorf("not checked %q does not say %q", not, text)
		}
	}
	if len(v.Warnings) > 0 {
		t.Errorf("warnings %v", v.Warnings)
	}
	newest := v.Entries[len(v.Entries)-1].RegisteredAt
	for behind, warns := range map[int64]bool{300_000: false, 300_001: true} {
		v, err := b.Check(w.state(), newest-behind)
		must(t, err)
		if warned := slices.ContainsFunc(v.Warnings, func(text string) bool { return strings.Contains(text, "behind the newest entry") }); warned != warns {
			t.Errorf("%d ms behind: warnings %v", behind, v.Warnings)
		}
	}
}

// TestABundleCountsOnlyWhatItHasChecked lists no rule that was asked of nothing.
func TestABundleCountsOnlyWhatItHasChecked(t *testing.T) {
	w := newWorld(t)
	w.company()
	news := func(indexes ...uint64) *bundle.Bundle {
		b := &bundle.Bundle{Agent: "worker", Head: w.Signed(len(w.Leaves))}
		for _, i := range indexes {
			b.Entries = append(b.Entries, bundle.Leaf{Index: i, Bytes: w.Leaves[i]})
		}
		var err error
		b.Inclusion, err = merkle.ProveInclusions(indexes, uint64(len(w.Leaves)), w.Node)
		must(t, err)
		return b
	}
	rules := func(v bundle.Verdict) (list []string) {
		for _, p := range v.Checked {
			if p.Count == 0 {
				t.Errorf("counted though nothing was checked: %s", p)
			}
			list = append(list, p.Rule)
		}
		return list
	}
	empty, err := news().Check(bundle.Accepted{Root: w.Root, Agent: "worker"}, w.At)
	must(t, err)
	if got := rules(empty); !slices.Equal(got, []string{"head"}) || !strings.HasPrefix(empty.NotChecked[0], "the chain of policies and keys (TRU-1)") {
		t.Errorf("checked %q, not checked %q", got, empty.NotChecked)
	}
	full, err := news(w.at["policy"], w.at["enroller"], w.at["worker"]).Check(bundle.Accepted{Root: w.Root, Agent: "worker"}, w.At)
	must(t, err)
	if got := rules(full); !slices.Equal(got, []string{"head", "inclusion", "TRU-1", "TRU-2", "aud"}) {
		t.Errorf("checked %q", got)
	}
	b := news()
	b.From = uint64(len(w.Leaves))
	again, err := b.Check(full.Next, w.At)
	must(t, err)
	if got := rules(again); !slices.Equal(got, []string{"head", "consistency", "TRU-1"}) {
		t.Errorf("checked %q with nothing new", got)
	}
}

// TestBundleNext follows the state from bundle to bundle: what was proven stays
// known, whatever became of the decision.
func TestBundleNext(t *testing.T) {
	for _, c := range bundleCases() {
		t.Run(c.name, func(t *testing.T) {
			_, b, a, now := c.build(t)
			v, err := b.Check(a, now)
			next := v.Next
			switch {
			case slices.Contains([]string{"AGT-1", "AGT-2 TRU-1", "AGT-2 TRU-2"}, outcomeOf(v, err, "")):
				if next.Head != a.Head || len(next.Links) != len(a.Links) || next.Confirmed != a.Confirmed {
					t.Error("the state changed")
				}
			case err == nil && (next.Head != b.Head || next.Size() < a.Size()):
				t.Error("the head was not accepted")
			}
			for _, link := range a.Links {
				if !slices.ContainsFunc(next.Links, func(l bundle.Leaf) bool { return l.Index == link.Index }) {
					t.Errorf("link %d is forgotten", link.Index)
				}
			}
			for _, e := range a.Epochs {
				if epoch, ok := next.Epoch(e.Incident, 0); !ok || epoch < e.Epoch {
					t.Errorf("epoch %d of %d fell to %d", e.Epoch, e.Incident, epoch)
				}
			}
			if next.Head == "" {
				return
			}
			data, encodeErr := next.Encode()
			must(t, encodeErr)
			again, decodeErr := bundle.DecodeAccepted(data)
			must(t, decodeErr)
			if _, err := b.Check(again, now); next.Head == b.Head && b.From == again.Size() && err != nil && outcomeOf(v, err, c.want) != c.want {
				t.Errorf("the same bundle again: %v", err)
			}
		})
	}
}

// TestBundleRevocationStays shows that a revocation counts from then on, though
// the bundle that brought it was refused, and the next one hides it.
// Draft: TRU-3.
func TestBundleRevocationStays(t *testing.T) {
	prepare := before("decision", revokeRole("coordinator", entry.RoleCoordinator))
	w, b := automatic(t, prepare)
	news := &bundle.Bundle{Agent: "worker", Head: b.Head, From: b.From, Consistency: b.Consistency}
	w.prove(news, []uint64{w.at["coordinator"], w.at["revoked coordinator"]})
	news.Membership = nil
	v, err := news.Check(w.state(), w.now)
	must(t, err)
	fromAll(w, b)
	if _, err := b.Check(v.Next, w.now); outcomeOf(v, err, "") != "AGT-2 TRU-2" {
		t.Errorf("error %v", err)
	}
}

// TestBundleFork looks at the evidence that an agent keeps.
func TestBundleFork(t *testing.T) {
	for _, c := range headCases() {
		w, b, a, now := c.build(t)
		_, err := b.Check(a, now)
		rule, ok := errors.AsType[*bundle.RuleError](err)
		if !ok {
			t.Fatalf("%s: %v", c.name, err)
		}
		_, proven := errors.AsType[*verify.ForkError](err)
		inconsistent := c.name == "head-fork" || c.name == "head-inconsistent"
		if proven != (c.name == "head-fork") || inconsistent != (len(rule.Heads) == 2) {
			t.Errorf("%s: proven %v, heads %q", c.name, proven, rule.Heads)
		}
		if !inconsistent {
			continue
		}
		for _, head := range rule.Heads {
			_, err := w.Root.Head([]byte(head))
			must(t, err)
		}
		if rule.Heads[0] != a.Head || rule.Heads[1] != b.Head {
			t.Errorf("%s: heads %q", c.name, rule.Heads)
		}
	}
}

// TestConfirm takes a new agent from the first contact to its first undo.
// Draft: AGT-1a.
func TestConfirm(t *testing.T) {
	w, b := automatic(t, plain)
	b.From, b.Consistency = 0, nil
	with("policy")(w, b)
	v, err := b.Check(w.fresh(), w.now)
	must(t, err)
	if v.Confirmed || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "first contact") {
		t.Fatalf("confirmed %v, warnings %q", v.Confirmed, v.Warnings)
	}
	size := len(w.Leaves)
	w.exec("source#after", entry.EffectNone, entry.Confirmed)
	for name, p := range map[string]verify.ConsistencyProof{
		"older":     w.Consistency(size-3, size),
		"the same":  w.Consistency(size, size),
		"newer":     w.Consistency(size, size+1),
		"unrelated": w.Consistency(size-3, size-2),
		"forked":    {Older: w.forked().Signed(size), Newer: w.Signed(size), Path: nil},
		"unproven":  {Older: w.Signed(size), Newer: w.forked().Signed(size + 1), Path: w.Consistency(size, size+1).Path},
	} {
		confirmed, err := v.Next.Confirm(p)
		good := name == "older" || name == "the same" || name == "newer"
		if good != (err == nil) || good != confirmed.Confirmed {
			t.Errorf("%s: confirmed %v, error %v", name, confirmed.Confirmed, err)
		}
		if _, fork := errors.AsType[*verify.ForkError](err); fork != (name == "forked") {
			t.Errorf("%s: error %v", name, err)
		}
		if confirmed.Head != v.Next.Head { // what comes after it was not shown
			t.Errorf("%s: the head is of size %d", name, confirmed.Size())
		}
	}
	confirmed, err := v.Next.Confirm(w.Consistency(size, size))
	must(t, err)
	b.From = uint64(size)
	v, err = b.Check(confirmed, w.now)
	must(t, err)
	if !v.Confirmed || len(v.Warnings) > 0 || len(v.Commands) != 5 {
		t.Errorf("confirmed %v, warnings %q, %d commands", v.Confirmed, v.Warnings, len(v.Commands))
	}
}

// TestBundleWitnessed is the first contact under a witness quorum, which needs
// no second source.
func TestBundleWitnessed(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		w, b := automatic(t, func(w *world) {
			if !pinned {
				hook("policy", func(p *entry.Policy) { p.Witnesses = testlog.WitnessPolicy() })(w)
			}
		})
		b.From, b.Consistency = 0, nil
		with("policy")(w, b)
		a := w.fresh()
		if pinned {
			a.Root.Witnesses = testlog.WitnessPolicy()
		}
		_, err := b.Check(a, w.now)
		if err == nil {
			t.Fatal("no witness cosigned")
		}
		cosign(1, "w1", "w3")(w, b)
		v, err := b.Check(a, w.now)
		must(t, err)
		if !v.Confirmed || !v.Next.Confirmed || len(v.Warnings) > 0 {
			t.Errorf("pinned %v: confirmed %v, warnings %v", pinned, v.Confirmed, v.Warnings)
		}
	}
}

// TestBundleMissing tells what another bundle could still show from what is
// wrong for good.
func TestBundleMissing(t *testing.T) {
	missing := []string{"member-entry-missing", "member-without-chain", "method-checkpoint-unknown", "method-none-of-confirmed", "restore-of-planned",
		"since-not-shown", "line-without-started", "line-with-planned", "line-covered-unshown", "line-from-planned",
		"none-of-confirmed-shown", "checkpoint-behind-index", "seed-not-shown", "chain-from-nowhere", "since-subject-not-shown", "line-by-unreached", "line-from-unbegun",
		"line-from-unbegun-to-nothing", "line-by-missing-checkpoint", "line-covered-by-nobody"}
	for _, c := range bundleCases() {
		if !strings.Contains(c.want, ": ") {
			continue
		}
		_, b, a, now := c.build(t)
		v, err := b.Check(a, now)
		must(t, err)
		for _, command := range v.Commands {
			named := strings.HasPrefix(c.want, string(command.Exec)+": ")
			if named && errors.Is(command.Refused, bundle.ErrMissing) != slices.Contains(missing, c.name) {
				t.Errorf("%s: %v", c.name, command.Refused)
			}
		}
	}
}

// TestMemberTextIsNoOtherMember tries a member whose name is written as more of
// a member, so that its leaf is that of another.
func TestMemberTextIsNoOtherMember(t *testing.T) {
	w, b := automatic(t, plain)
	last := &b.Members[len(b.Members)-1]
	honest := last.Member
	last.Member = entry.Member{Agent: honest.Agent + `","checkpoint":"` + entry.Principal(honest.Checkpoint), Exec: honest.Exec, Index: honest.Index,
		LeafHash: honest.LeafHash, Method: honest.Method}
	if merkle.HashLeaf(last.Member.AppendJSON(nil)) != merkle.HashLeaf(honest.AppendJSON(nil)) {
		t.Fatal("the two have different leaves: this test is about nothing")
	}
	_, err := b.Check(w.state(), w.now)
	wantFormat(t, err)
}
