package importer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// An attempts file is the log of a harness that lets coding agents try a task
// several times, often several models in turn: one row per attempt, the rows
// of a case together and in order.
//
//   - A step is an attempt. It depends softly on the one before: each starts
//     from a fresh checkout, but happens because the other failed.
//   - An attempt tries the first one again: it falls back where its model is
//     new, else it is a retry on that model. After one that passed, which a
//     harness may not trust, it begins anew.
//   - Its agent is the model; the harness answers for the case, and for rows
//     that do not name their model.
//   - The effect is reversible: edits in a working tree. A failed attempt left
//     none of them where patch_bytes is 0, all where the edit is said to have
//     succeeded, else a part. It may be repeated without a second effect, since
//     each attempt starts anew.
//   - The class says the outcome: ok, or a code that Classify knows.
//   - A checkpoint is an attempt that passed its checks.
//   - The run is ok when one of its attempts is.
type attemptRow struct {
	Case        string         `json:"case"`
	Seq         *int64         `json:"seq"`
	Model       string         `json:"model"`
	Class       string         `json:"class"`
	EditOutcome *bool          `json:"edit_outcome"`
	PatchBytes  *int64         `json:"patch_bytes"`
	CostUSD     jsontext.Value `json:"cost_usd"`
	LatencyMS   *int64         `json:"latency_ms"`
}

// attemptGroup is the case whose rows are being read. After an error in one row, the other rows of
// the case are skipped: the error stands for the case.
type attemptGroup struct {
	source *source
	name   string
	rec    record // of its first row
	c      scenario.Case
	first  int // the step that those after it try again
	broken bool
	lost   bool // the record before was not JSON, and may have been a row of the next case
}

// nextVariation is the variation of a further attempt on a model: a fallback if the
// model is named and no earlier attempt ran on it.
func nextVariation(model string, earlier []scenario.Step) scenario.Variation {
	known := slices.ContainsFunc(earlier, func(s scenario.Step) bool { return s.Model == model || s.Model == "" })
	if model == "" || known {
		return scenario.Variation{Strategy: "retry", Model: model}
	}
	return scenario.Variation{Strategy: "fallback_model", Model: model}
}

// attempts yields the cases of an attempts file.
func (s *source) attempts(yield func(scenario.Case, error) bool) {
	group := attemptGroup{source: s}
	for {
		rec, more, err := s.next()
		if err != nil && group.lose(yield, err) {
			continue
		}
		if err != nil {
			return
		}
		var row attemptRow
		var wrong *scenario.Error
		if more {
			wrong = row.read(rec)
		}
		if !more || row.Case != "" && row.Case != group.name {
			if !more {
				group.end(yield)
				return
			}
			if !group.end(yield) {
				s.counts.Records-- // of a case that nobody wants any more
				return
			}
			group.begin(row.Case, rec)
		}
		if wrong == nil && !group.broken {
			wrong = group.add(row, rec)
		}
		if wrong != nil && !group.fail(yield, rec, wrong) {
			return
		}
		group.lost = false
	}
}

// read decodes a row; after an error it holds at most the name of its case.
func (row *attemptRow) read(rec record) *scenario.Error {
	wrong := scenario.DecodeRecord(rec.value, row)
	if wrong == nil && row.Case == "" {
		wrong = scenario.Malformed("/case", "is missing", "name the case that the attempt belongs to")
	}
	return wrong
}

func (g *attemptGroup) begin(name string, rec record) {
	*g = attemptGroup{source: g.source, lost: g.lost, name: name, rec: rec, c: scenario.Case{
		ID: scenario.LocalID(name), Agent: principal(Attempts, "harness"),
		Workflow: workflowID(Attempts, stem(g.source.file), name), Source: string(Attempts), Outcome: scenario.NotObserved,
	}}
	g.rec.value = nil
}

// end yields the case if it exists and has all its rows.
func (g *attemptGroup) end(yield func(scenario.Case, error) bool) bool {
	if g.name == "" || g.broken {
		return true
	}
	g.source.counts.Taken += len(g.c.Steps)
	return g.source.deliver(yield, g.rec, g.c, nil)
}

// fail yields the error of a row and drops the case. If the row does not name its case, the case
// that is being read is named.
func (g *attemptGroup) fail(yield func(scenario.Case, error) bool, rec record, wrong *scenario.Error) bool {
	wrong.File, wrong.Record, wrong.Line = g.source.file, rec.number, rec.line
	if g.broken && g.name != "" {
		return yield(scenario.Case{}, wrong)
	}
	err := g.abandon(wrong)
	g.broken = true
	return yield(scenario.Case{}, err)
}

// abandon adds to an error the case that is not yielded because of the error.
func (g *attemptGroup) abandon(err error) error {
	var wrong *scenario.Error
	if errors.As(err, &wrong) && g.name != "" && !g.broken {
		wrong.Detail += fmt.Sprintf("; case %q is not imported", g.name)
	}
	return err
}

// lose yields an error of the file. It reports whether rows come after the error. A row that was
// lost may belong to the case before it, or to the one after it.
func (g *attemptGroup) lose(yield func(scenario.Case, error) bool, err error) bool {
	if g.source.lost || !g.source.broke {
		err = g.abandon(err)
		g.broken, g.lost = true, true
	}
	return yield(scenario.Case{}, err) && g.source.broke
}

// add appends the step of a row.
func (g *attemptGroup) add(row attemptRow, rec record) *scenario.Error {
	next := len(g.c.Steps)
	if next == 0 && g.lost && row.Seq == nil {
		return scenario.Malformed("", "comes after a row that is not JSON and may be of the same case", "number the rows of a case with seq, from 0")
	}
	if next == scenario.StepsMax {
		return tooManySteps()
	}
	if row.Seq != nil && *row.Seq != int64(next) {
		return scenario.Malformed("/seq", fmt.Sprintf("is %d where %d is next", *row.Seq, next),
			"keep all rows of a case together, counted from 0")
	}
	step, wrong := row.step(next, rec)
	if wrong != nil {
		return wrong
	}
	if next > g.first && g.c.Steps[next-1].Outcome != scenario.OK {
		tryAgain(&step, &g.c.Steps[g.first], nextVariation(step.Model, g.c.Steps[g.first:]))
	} else {
		g.first = next
	}
	g.c.Steps = append(g.c.Steps, step)
	if g.c.Outcome != scenario.OK && step.Outcome != scenario.NotObserved {
		g.c.Outcome = step.Outcome
	}
	return nil
}

func (row *attemptRow) step(index int, rec record) (scenario.Step, *scenario.Error) {
	cost, wrong := micros("/cost_usd", row.CostUSD)
	if wrong != nil {
		return scenario.Step{}, wrong
	}
	if ms := row.LatencyMS; ms != nil && (*ms < 0 || *ms > entry.MaxInteger) {
		return scenario.Step{}, scenario.Malformed("/latency_ms", fmt.Sprintf("is %d", *ms), "write a duration in milliseconds, or leave it out")
	}
	if size := row.PatchBytes; size != nil && *size < 0 {
		return scenario.Step{}, scenario.Malformed("/patch_bytes", fmt.Sprintf("is %d", *size), "write a size in bytes, or leave it out")
	}
	model := row.Model
	if model == "" {
		model = "harness"
	}
	step := scenario.Step{
		ID: strconv.Itoa(index), Agent: principal(Attempts, model), Tool: "attempt", Effect: entry.EffectReversible, Idempotent: true,
		Attempt: scenario.Attempt{Outcome: scenario.NotObserved, Variation: scenario.Variation{Model: modelID(row.Model)}, CostMicroUSD: cost, LatencyMS: row.LatencyMS},
	}
	if index > 0 {
		step.Parents = []scenario.Parent{{Step: strconv.Itoa(index - 1), Dep: entry.Soft}}
	}
	switch row.Class {
	case "":
	case "ok":
		step.Outcome, step.Checkpoint = scenario.OK, true
	default:
		step.Outcome = scenario.Failed
		step.Failure = scenario.NewFailure(step.Effect, scenario.RawError{ProviderCode: scenario.Cut(row.Class, scenario.TextMax)}, entry.DigestOf(rec.value))
		step.Failure.Effects, step.Failure.ReplaySafety = row.effects(), entry.ReplaySafe
	}
	return step, nil
}

// effects returns how much of its edit a failed attempt left behind.
func (row *attemptRow) effects() entry.Effects {
	switch {
	case row.PatchBytes == nil:
		return entry.EffectsUnknown
	case *row.PatchBytes == 0:
		return entry.EffectsNone
	case row.EditOutcome != nil && *row.EditOutcome:
		return entry.EffectsComplete
	default:
		return entry.EffectsPartial
	}
}
