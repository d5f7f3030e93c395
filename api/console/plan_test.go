package console

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// drawnPlan is a plan of some members, newest first as plans are.
func drawnPlan(t *rapid.T) *api.Plan {
	plan, members := &api.Plan{}, rapid.IntRange(1, pictured).Draw(t, "members")
	for i := range members {
		agent := entry.Principal(fmt.Sprintf("agent-%d", rapid.IntRange(0, 9).Draw(t, "agent")))
		m := api.PlanMember{Agent: agent, Exec: entry.NewRef(agent, fmt.Sprint("x", i)), Index: uint64(i), Method: entry.MethodNone}
		for range rapid.IntRange(0, min(i, 3)).Draw(t, "parents") {
			m.Parents = append(m.Parents, api.PlanParent{Place: members - 1 - rapid.IntRange(0, i-1).Draw(t, "parent"), Dep: entry.Hard})
		}
		plan.Members = append(plan.Members, m)
	}
	slices.Reverse(plan.Members)
	return plan
}

// TestLayout checks that boxes never overlap, stay within the picture and in the row of
// their agent, and that arrows go right.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawnPlan(t)
		p := layOutPlan(plan, nil)
		at, edges := map[entry.Ref]box{}, 0
		for i, b := range p.Boxes {
			at[b.Exec] = b
			if b.X < gutter || b.X+boxWidth > p.Width || b.Y < 0 || b.Y+boxHeight > p.Height {
				t.Fatalf("%+v leaves the picture of %d × %d", b, p.Width, p.Height)
			}
			for _, o := range p.Boxes[:i] {
				if b.X < o.X+boxWidth && o.X < b.X+boxWidth && b.Y < o.Y+boxHeight && o.Y < b.Y+boxHeight {
					t.Fatalf("%+v overlaps %+v", b, o)
				}
			}
			row := slices.IndexFunc(p.Rows, func(r pictureRow) bool { return r.Agent == b.Agent })
			if b.Y < p.Rows[row].Y || b.Y+boxHeight > p.Rows[row].Y+p.Rows[row].Height {
				t.Fatalf("%+v is not in the row %+v", b, p.Rows[row])
			}
		}
		for _, m := range plan.Members {
			for _, parent := range m.Parents {
				edges++
				if of := plan.Members[parent.Place].Exec; at[of].X+boxWidth >= at[m.Exec].X {
					t.Fatalf("%s is not left of %s, which was built on it", of, m.Exec)
				}
			}
		}
		if len(p.Edges) != edges || len(p.Boxes) != len(plan.Members) {
			t.Fatalf("%d boxes and %d arrows of %d members and %d dependencies", len(p.Boxes), len(p.Edges), len(plan.Members), edges)
		}
	})
}

// TestLayoutStands checks that what becomes of members moves no box.
func TestLayoutStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawnPlan(t)
		before := layOutPlan(plan, nil)
		plan.Decision = 7
		for i := range plan.Members {
			plan.Members[i].Result = rapid.SampledFrom(append(entry.Results(), "")).Draw(t, "result")
		}
		for i, b := range layOutPlan(plan, nil).Boxes {
			if o := before.Boxes[i]; b.X != o.X || b.Y != o.Y || b.Name != o.Name {
				t.Fatalf("%+v was %+v", b, o)
			}
		}
	})
}

// TestLanes counts every member of a plan that is too large for a picture.
func TestLanes(t *testing.T) {
	plan := &api.Plan{Decision: 1}
	for i := range 100_000 {
		m := api.PlanMember{Agent: entry.Principal(fmt.Sprint("agent-", i%60)), Index: uint64(100_000 - i)}
		if i%3 == 0 {
			m.Result = entry.Restored
		}
		plan.Members = append(plan.Members, m)
	}
	lanes := lanesOf(plan)
	all, done := 0, 0
	for _, l := range lanes {
		all, done = all+l.Members, done+l.Done
		if l.Done+l.Stays+l.Waits != l.Members {
			t.Errorf("%+v does not add up", l)
		}
	}
	if len(lanes) != 60 || all != 100_000 || done != 33_334 {
		t.Errorf("%d lanes, %d members, %d done", len(lanes), all, done)
	}
}

// TestHandsOver names the agents whose members depend on an agent's, and counts what cannot be
// undone.
func TestHandsOver(t *testing.T) {
	member := func(agent entry.Principal, method entry.Method, parents ...int) api.PlanMember {
		m := api.PlanMember{Agent: agent, Method: method}
		for _, place := range parents {
			m.Parents = append(m.Parents, api.PlanParent{Place: place, Dep: entry.Hard})
		}
		return m
	}
	sent := member("c", entry.MethodCompensate, 4)
	sent.Result = entry.ResultIrrevocable
	plan := &api.Plan{Decision: 1, Members: []api.PlanMember{sent, member("b\u202e", entry.MethodResidual, 3, 4), member("c", entry.MethodResidual, 3),
		member("a", entry.MethodRestore, 4), member("a", entry.MethodRestore)}}
	var says []string
	for _, l := range lanesOf(plan) {
		says = append(says, fmt.Sprintf("%s %d: %s", l.Agent, l.Residual, l.To))
	}
	if want := []string{"a 0: c, b[U+202E]", "c 2: ", "b\u202e 1: "}; !slices.Equal(says, want) {
		t.Errorf("%q, want %q", says, want)
	}
}

// TestLooks gives every result of the protocol a sign and a word.
func TestLooks(t *testing.T) {
	for _, r := range append(entry.Results(), "") {
		if l := lookOf(&api.PlanMember{Result: r}, true); l.Sign == "" || l.Word == "" || l.Class == "" {
			t.Errorf("%q: %+v", r, l)
		}
	}
}

// TestContrast computes the contrast of each color of text on each ground, in both
// themes: at least 4.5 (WCAG 2.2, success criterion 1.4.3).
func TestContrast(t *testing.T) {
	style, err := files.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`).FindAllStringSubmatch(string(style), -1) {
		tokens[m[1]] = [2]string{m[2], m[3]}
	}
	for theme, name := range []string{"light", "dark"} {
		for _, ground := range []string{"page", "band"} {
			for _, text := range []string{"text", "muted", "link", "good", "bad", "wait"} {
				if c := contrast(t, tokens[text][theme], tokens[ground][theme]); c < 4.5 {
					t.Errorf("%s: %s on %s has the contrast %.2f", name, text, ground, c)
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance is the relative luminance of a color (WCAG 2.2, definition).
func luminance(t *testing.T, color string) (sum float64) {
	t.Helper()
	if len(color) != 7 {
		t.Fatalf("%q is not a color of six digits", color)
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}

// FuzzLegible holds that no text shows a character without a shape.
func FuzzLegible(f *testing.F) {
	f.Add("a\u202eb\x00\xff<b>")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range words.Legible(text) {
			if r != ' ' && !strconv.IsGraphic(r) {
				t.Fatalf("%q shows %U", text, r)
			}
		}
	})
}
