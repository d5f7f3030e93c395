package verify_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/verify"
)

// TestJavaScript runs the tests of verify/js, in which the protocol vectors are.
func TestJavaScript(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	command := exec.CommandContext(t.Context(), jsverify.Node(t), "--no-warnings", "--test", "test/vectors.test.js")
	command.Dir = jsverify.Dir()
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "# fail 0") || strings.Contains(string(out), "# pass 0") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestJavaScriptPage runs the first example of docs/javascript.md.
func TestJavaScriptPage(t *testing.T) {
	node := jsverify.Node(t)
	page, err := os.ReadFile(filepath.Join("..", "docs", "javascript.md"))
	must(t, err)
	_, program, _ := strings.Cut(string(page), "```js file=verify.mjs\n")
	program, rest, _ := strings.Cut(program, "```")
	_, printed, _ := strings.Cut(rest, "receipts.ndjson\n")
	printed, _, _ = strings.Cut(printed, "```")

	l, _ := working(t)
	dir := t.TempDir()
	modules, err := filepath.Abs(jsverify.Dir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "verify"), 0o750))
	must(t, os.Symlink(modules, filepath.Join(dir, "verify", "js")))
	var receipts strings.Builder
	for _, r := range l.All() {
		receipts.WriteString(encoded(t, r) + "\n")
	}
	for name, content := range map[string]string{"verify.mjs": program, "root.json": encoded(t, l.Root), "receipts.ndjson": receipts.String()} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	command := exec.CommandContext(t.Context(), node, "--no-warnings", "verify.mjs", "root.json", "receipts.ndjson")
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil || string(out) != printed || printed == "" {
		t.Errorf("%v\n%s\nwant\n%s", err, out, printed)
	}
}

// judged is a verdict on material, as both verifiers give it.
type judged struct {
	Refused       string                `json:"refused"` // step; fork, form; empty: nothing false was found
	Entries       []judgedEntry         `json:"entries"`
	Heads         []judgedHead          `json:"heads"`
	Equivocations []verify.Equivocation `json:"equivocations"`
	Answers       []verify.Answer       `json:"answers"`
	Checked       []judgedStep          `json:"checked"`
	Missing       []judgedStep          `json:"missing"`
	NotChecked    []string              `json:"not_checked"`
	Warnings      []string              `json:"warnings"`
}

type judgedEntry struct {
	Index        uint64 `json:"index"`
	Kind         string `json:"kind"`
	Iss          string `json:"iss"`
	RegisteredAt int64  `json:"registered_at"`
	Signed       bool   `json:"signed"`
}

type judgedHead struct {
	Size uint64 `json:"size"`
	Root string `json:"root"`
}

type judgedStep struct {
	Step  int    `json:"step"`
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// judge has the Go code judge files.
func judge(tb testing.TB, root string, files [][]byte, questions ...verify.Question) judged {
	tb.Helper()
	report, err := func() (verify.Report, error) {
		var m verify.Material
		for i, file := range files {
			if err := m.Add(fmt.Sprint("file ", i+1), file); err != nil {
				return verify.Report{}, err
			}
		}
		m.Questions = questions
		pinned, err := verify.ParseRoot([]byte(root))
		if err != nil {
			return verify.Report{}, err
		}
		return pinned.Verify(m)
	}()
	if err != nil {
		return judged{Refused: refusedBy(tb, err)}
	}
	j := judged{Equivocations: report.Equivocations, Answers: report.Answers, NotChecked: report.NotChecked, Warnings: report.Warnings}
	for _, e := range report.Entries {
		j.Entries = append(j.Entries, judgedEntry{e.Index, string(e.Kind), string(e.Header.Iss), e.RegisteredAt, e.Signed})
	}
	for _, h := range report.Heads {
		j.Heads = append(j.Heads, judgedHead{h.Size, h.Root.String()})
	}
	for _, c := range report.Checked {
		j.Checked = append(j.Checked, judgedStep{int(c.Step), c.Step.String(), c.Count})
	}
	for _, g := range report.Missing {
		j.Missing = append(j.Missing, judgedStep{Step: int(g.Step), Name: g.Step.String()})
	}
	return j
}

func refusedBy(tb testing.TB, err error) string {
	tb.Helper()
	if step, ok := errors.AsType[*verify.StepError](err); ok {
		return fmt.Sprint("step ", int(step.Step))
	}
	if _, ok := errors.AsType[*verify.ForkError](err); ok {
		return "fork"
	}
	wantFormat(tb, err)
	return "form"
}

// plainly leaves of a verdict what both have to say in the same way: of texts how many
// there are, and an empty list is as none.
func plainly(j *judged) {
	for _, list := range []*[]string{&j.NotChecked, &j.Warnings} {
		short := make([]string, len(*list))
		*list = short
	}
	if len(j.Entries) == 0 {
		j.Entries = nil
	}
	if len(j.Heads) == 0 {
		j.Heads = nil
	}
	if len(j.Equivocations) == 0 {
		j.Equivocations = nil
	}
	if len(j.Answers) == 0 {
		j.Answers = nil
	}
	if len(j.Checked) == 0 {
		j.Checked = nil
	}
	if len(j.Missing) == 0 {
		j.Missing = nil
	}
}

// TestJavaScriptAgreesChaos has verify/js judge random material of random logs, whose
// entries may be signed by anybody, and random changes of its bytes: both verifiers must
// say the same, step by step.
func TestJavaScriptAgreesChaos(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	count := budget.Budget{Short: 300, Usual: 300, Chaos: 500_000}.Now()
	random := rand.New(rand.NewPCG(budget.Seed(t), 0))
	second := jsverify.Start(t)
	verdicts := map[string]int{}
	var s *scene
	for i := 0; i < count && !t.Failed(); i++ {
		if i%40 == 0 {
			s = newScene(t, random)
		}
		root, files := s.question()
		want, got := judge(t, root, files), judged{}
		second.Ask(jsverify.Files{Root: []byte(root), Files: files}, &got)
		plainly(&want)
		plainly(&got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("question %d: Go has -, JavaScript +:\n%s\nroot %s\nfiles %q", i, diff, root, files)
		}
		verdicts[want.Refused]++
	}
	for _, verdict := range []string{"", "form", "fork", "step 1", "step 2", "step 3", "step 4", "step 5", "step 6", "step 7", "step 8"} {
		if verdicts[verdict] == 0 {
			t.Errorf("nothing has the verdict %q", verdict)
		}
	}
	t.Log(verdicts)
}
