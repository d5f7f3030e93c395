package bundle_test

import (
	"errors"
	"strings"
	"testing"

	"recoveryledger/verify/bundle"
)

// refusals are the members that a bundle has refused.
func refusals(b *bundle.Bundle, a bundle.Accepted, now int64) (refused []*bundle.RuleError) {
	v, err := b.Check(a, now)
	if err != nil {
		return nil
	}
	for i := range v.Commands {
		if c := &v.Commands[i]; c.Refused != nil {
			refused = append(refused, c.Refused)
		}
	}
	return refused
}

// TestNoCarrierProvesARefusal alters each step of bundles that hold, and leaves each entry out: a
// member is refused then, and never as proven. Who carries a bundle can do no more than that.
// Draft: AGT-9.
func TestNoCarrierProvesARefusal(t *testing.T) {
	refused := 0
	check := func(name string, w *world, b *bundle.Bundle) {
		for _, why := range refusals(b, w.state(), w.now) {
			if refused++; why.Proven {
				t.Errorf("%s: proven: %v", name, why)
			}
		}
	}
	for name, scene := range map[string]func(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle){
		"automatic": automatic, "approved": approved, "amended": amended, "restored": restored, "ranged": ranged, "stopped": stopped,
	} {
		w, b := scene(t, plain)
		whole := *b
		for i := range whole.Steps {
			for _, change := range []func(s *bundle.ChainStep){
				func(s *bundle.ChainStep) { s.From-- },
				func(s *bundle.ChainStep) { s.Rule, s.By, s.Checkpoint = bundle.RuleDependent, 0, 0 },
				func(s *bundle.ChainStep) { s.Rule, s.By, s.Checkpoint = bundle.RuleSeed, 0, 0 },
				func(s *bundle.ChainStep) { s.Rule = bundle.RuleLine; s.Checkpoint++ },
			} {
				altered := whole
				altered.Steps = append([]bundle.ChainStep{}, whole.Steps...)
				change(&altered.Steps[i])
				check(name, w, &altered)
			}
			shorter := whole
			shorter.Steps = append(append([]bundle.ChainStep{}, whole.Steps[:i]...), whole.Steps[i+1:]...)
			check(name, w, &shorter)
		}
		for of, at := range w.at {
			shorter := whole
			drop(of)(w, &shorter)
			if at != whole.Decision {
				check(name+" without "+of, w, &shorter)
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d members were refused: nothing was shown", refused)
	}
}

// TestTheLogProvesRefusals has the decision itself be wrong about a member: its refusal is proven
// where the entry of the member contradicts its method, and only there.
// Draft: AGT-9.
func TestTheLogProvesRefusals(t *testing.T) {
	seen := map[bool]int{}
	for _, c := range bundleCases() {
		exec, rule, ok := strings.Cut(c.want, ": ")
		if !ok {
			continue
		}
		_, b, a, now := c.build(t)
		for _, why := range refusals(b, a, now) {
			if why.What != exec {
				continue
			}
			wants := (rule == "AGT-3" || rule == "AGT-3 SCO-4") && !errors.Is(why, bundle.ErrMissing)
			if seen[wants]++; why.Proven != wants {
				t.Errorf("%s: proven: %t, %v", c.name, why.Proven, why)
			}
		}
	}
	if seen[true] < 3 || seen[false] < 20 {
		t.Errorf("too few refusals: %v", seen)
	}
}
