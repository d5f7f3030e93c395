package scope

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// dataFiles lists the files of a data set beside the repository, and skips the
// test where it is absent.
func dataFiles(t *testing.T, set, ext string) (files []string) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "data", set)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("missing: ../shared/data/%s", set)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ext {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func cases(t *testing.T, format importer.Format, files []string) (all []scenario.Case) {
	t.Helper()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for c, err := range importer.Import(format, filepath.ToSlash(name), f, new(importer.Counts)) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		_ = f.Close()
	}
	return all
}

// historyOf lets agents run the steps of a case in their order, each step by
// one of so many agents. Some do not begin, some do not end.
func historyOf(c scenario.Case, agents int, r *rand.Rand) *history {
	h, number := &history{size: 1, spans: map[int]bool{}}, map[string]uint32{}
	effects := []entry.Effect{entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared}
	for i := range c.Steps {
		step := &c.Steps[i]
		e := execution{agent: r.IntN(agents), effect: Effect(slices.Index(effects, step.Effect)), first: h.size}
		for _, p := range step.Parents {
			e.parents = append(e.parents, Parent{number[p.Step], p.Dep == entry.Soft})
		}
		number[step.ID] = uint32(i)
		h.size++
		if r.IntN(20) > 0 {
			e.progress, e.started = Started, h.size
			h.size++
			if r.IntN(20) > 0 {
				e.progress, e.final = Confirmed, h.size
				if step.Outcome == scenario.Failed {
					e.progress, e.clean = Failed, step.Failure != nil && step.Failure.Effects == entry.EffectsNone
				}
				h.size++
			}
		}
		h.executions = append(h.executions, e)
		if step.Checkpoint && e.final != 0 {
			h.checkpoints = append(h.checkpoints, checkpoint{agent: e.agent, index: h.size, after: i})
			h.size++
		}
	}
	return h
}

// checkData compares plans over the graphs of a data set with the oracle's,
// with one agent and with three, from several seeds each.
func checkData(t *testing.T, all []scenario.Case, want int) {
	t.Helper()
	members, steps := 0, 0
	for i, c := range all {
		if len(c.Steps) == 0 {
			continue
		}
		for variant := range uint64(6) {
			r := rand.New(rand.NewPCG(uint64(i), variant))
			h := historyOf(c, 1+2*int(variant%2), r)
			seeds := []int{r.IntN(len(h.executions))}
			p := h.graph().Plan(request(seeds))
			for x, v := range h.scope(seeds, until) {
				m, ok := p.Find(uint32(x))
				if ok != v.in || ok && (m.Method != v.method || int(m.Checkpoint)-1 != v.checkpoint) {
					t.Fatalf("%s, variant %d, step %d: %+v, the oracle says %+v", c.ID, variant, x, m, v)
				}
			}
			h.checkChains(t, p, seeds)
			members, steps = members+len(p.Members), steps+len(h.executions)
		}
	}
	t.Logf("%d graphs, %d of %d executions undone", len(all), members, steps)
	if len(all) != want {
		t.Errorf("%d graphs, want %d", len(all), want)
	}
}

// TestGalaxyWorkflows plans rollbacks over the workflow graphs of Galaxy.
func TestGalaxyWorkflows(t *testing.T) {
	checkData(t, cases(t, importer.Galaxy, dataFiles(t, "galaxy_iwc", ".ga")), 94)
}

// TestAirlineRuns plans rollbacks over the data edges of the airline agents.
func TestAirlineRuns(t *testing.T) {
	checkData(t, cases(t, importer.OpenAIChat, dataFiles(t, "tau_bench_airline", ".json")), 200)
}
