package importer

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"recoveryledger/coord/recovery/importer/foreign"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// branches makes the steps of a forest: those inside of a call before it.
type branches struct {
	*forest
	format Format
	out    []scenario.Step
	nodes  []int                  // of the steps in out
	inner  [][]int                // steps right inside of each step in out
	steps  map[pcommon.SpanID]int // index in out by span
}

// visit appends the steps at and below a node. It returns the steps among them that are not inside
// another.
func (b *branches) visit(node int, agent string) []int {
	s := &b.spans[node]
	if s.named || agent == "" {
		agent = s.agent
	}
	var inside []int
	for _, child := range b.children[node] {
		inside = append(inside, b.visit(child, agent)...)
	}
	isAgent := s.role == roleAgent && s.failed && !s.parent.IsEmpty() && !b.failedBelow(node)
	if !s.isStep() && !isAgent {
		return inside
	}
	at := len(b.out)
	b.steps[s.id] = at
	b.out, b.nodes, b.inner = append(b.out, b.step(node, agent)), append(b.nodes, node), append(b.inner, inside)
	return []int{at}
}

// step is the step of a span, without its edges.
func (b *branches) step(node int, agent string) scenario.Step {
	s := &b.spans[node]
	step := scenario.Step{
		ID: cmp.Or(s.own, s.id.String()), Agent: principal(b.format, cmp.Or(agent, "unnamed")), Tool: s.tool, Effect: entry.EffectNone, InputDigest: s.input, InputText: s.inputText,
		Attempt: scenario.Attempt{
			Outcome: scenario.OK, OutputDigest: s.output, TokensIn: s.tokensIn, TokensOut: s.tokensOut,
			CostMicroUSD: s.cost, LatencyMS: latency(s.start, s.end),
		},
	}
	switch s.role {
	case roleTool:
		step.Effect = foreign.ToolEffect(s.tool)
	case roleAgent:
		step.Tool = "invoke_agent"
	default:
		step.Model = s.model
	}
	if s.unended {
		step.Outcome = scenario.NotObserved
	}
	if s.failed {
		raw, _ := b.cause(node)
		step.Outcome, step.Failure = scenario.Failed, scenario.NewFailure(step.Effect, raw, s.evidence)
	}
	b.resend(&step, node)
	return step
}

// resend makes attempts of the requests that a step's client sent again: the failed requests, and
// the last request, which is the result of the step.
func (b *branches) resend(step *scenario.Step, node int) {
	requests := slices.DeleteFunc(slices.Clone(b.children[node]), func(child int) bool { return b.spans[child].role != roleClient })
	if !slices.ContainsFunc(requests, func(child int) bool { return b.spans[child].resent }) {
		return
	}
	final := step.Attempt
	var all []scenario.Attempt
	for i, child := range requests {
		r := &b.spans[child]
		one := final
		switch {
		case i == len(requests)-1:
		case !r.failed: // a redirect
			continue
		default:
			raw, _ := b.cause(child)
			one = scenario.Attempt{Outcome: scenario.Failed, Failure: scenario.NewFailure(step.Effect, raw, r.evidence), Variation: scenario.Variation{Model: final.Model}}
		}
		one.LatencyMS = latency(r.start, r.end)
		if len(all) > 0 {
			one.Strategy = "retry"
		}
		all = append(all, one)
	}
	step.Attempt, step.Attempts = all[0], all[1:]
}

// connect adds the edges; outer are the steps inside of no other.
func (b *branches) connect(outer []int) {
	b.sequence(outer)
	for at, inside := range b.inner {
		b.sequence(inside)
		for _, callee := range inside {
			b.depend(at, callee, entry.Hard)
		}
		for _, link := range b.spans[b.nodes[at]].links {
			if earlier, ok := b.steps[link]; ok && earlier < at {
				b.depend(at, earlier, entry.Hard)
			}
		}
	}
}

// depend adds an edge, or makes the one that is there hard.
func (b *branches) depend(at, on int, dep entry.Dep) {
	step, parent := &b.out[at], b.out[on].ID
	for i := range step.Parents {
		if step.Parents[i].Step == parent {
			if dep == entry.Hard {
				step.Parents[i].Dep = dep
			}
			return
		}
	}
	step.Parents = append(step.Parents, scenario.Parent{Step: parent, Dep: dep})
}

// sequence connects steps that stand in the same place, in the order in which
// they began.
func (b *branches) sequence(steps []int) {
	for i, at := range steps {
		before := -1
		for _, earlier := range steps[:i] {
			first := &b.spans[b.nodes[earlier]]
			if first.endedBefore(&b.spans[b.nodes[at]]) && (before < 0 || first.end >= b.spans[b.nodes[before]].end) {
				before = earlier
			}
		}
		if before >= 0 {
			b.depend(at, before, entry.Soft)
			if b.spans[b.nodes[before]].start < b.spans[b.nodes[at]].start { // otherwise they may stand side by side
				b.retry(at, before, steps[:i])
			}
		}
	}
}

// endedBefore says whether a span ended before one began that is later in the order of grow.
// Exporters in JavaScript cut the beginning of a span to a whole millisecond, and not its end. So a
// span that ended in the millisecond in which the later one began counts as ended before: a
// dependency too many is safer than one that is missing.
func (p *span) endedBefore(later *span) bool {
	const millisecond = 1_000_000
	return p.end <= later.start || later.start%millisecond == 0 && p.end < later.start+millisecond
}

// retry notes that a step tries an earlier one again: a call of the model the
// one right before it, a call of a tool the last one of the same tool.
func (b *branches) retry(at, before int, earlier []int) {
	step := &b.out[at]
	if step.Tool == "" {
		if first := &b.out[before]; first.Tool == "" && first.Final().Outcome == scenario.Failed {
			way := scenario.Variation{Strategy: "retry", Model: step.Model}
			if first.Model != step.Model {
				way.Strategy = "fallback_model"
			}
			tryAgain(step, first, way)
		}
		return
	}
	for _, i := range slices.Backward(earlier) {
		first := &b.out[i]
		if first.Tool != step.Tool || first.Agent != step.Agent {
			continue
		}
		if first.Final().Outcome == scenario.Failed && first.InputDigest != "" && step.InputDigest != "" {
			tryAgain(step, first, sameArguments(first.InputDigest == step.InputDigest))
		}
		return
	}
}

// count counts the spans of the trace: those that are steps, and the others by what they are.
func (b *branches) count(counts *Counts) {
	for i := range b.spans {
		s := &b.spans[i]
		if _, step := b.steps[s.id]; step {
			counts.Taken++
			continue
		}
		switch s.role {
		case roleAgent:
			counts.leave("agents at work, which hold calls")
		case roleClient:
			counts.leave("requests, which are parts of calls")
		case roleHolds:
			counts.leave("chains and checks, which are no calls")
		default:
			counts.leave("spans without an attribute that says what they are")
		}
	}
}
