package importer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
)

// TestMain leaves make race what a server has received: one goroutine imports runs.
func TestMain(m *testing.M) { os.Exit(budget.Raced(m, "TestTraceOfTheSDK")) }

// dataFiles gives the files of a set of real data with an extension, in
// order, and skips the test where the set is absent. The sets lie beside the
// module and are read in place.
func dataFiles(tb testing.TB, set, ext string) []string {
	tb.Helper()
	dir := filepath.Join(needs.Root(), "..", "shared", "data", set)
	if _, err := os.Stat(dir); err != nil {
		tb.Skipf("missing: ../shared/data/%s", set)
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ext {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return files
}

// importFiles reads all cases of some files, checks each, and that workflow
// ids are unique over the files.
func importFiles(tb testing.TB, format Format, files []string) []scenario.Case {
	tb.Helper()
	var cases []scenario.Case
	from := map[entry.WorkflowID]string{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			tb.Fatal(err)
		}
		for c, err := range Import(format, file, f, new(Counts)) {
			if err != nil {
				tb.Fatal(err)
			}
			checkCase(tb, c)
			if other, ok := from[c.Workflow]; ok {
				tb.Errorf("workflow %s in %s and %s", c.Workflow, other, file)
			}
			from[c.Workflow] = file
			cases = append(cases, c)
		}
		if err := f.Close(); err != nil {
			tb.Fatal(err)
		}
	}
	return cases
}

// importText reads a text that is expected to be good.
func importText(tb testing.TB, format Format, text string) []scenario.Case {
	tb.Helper()
	cases, errs := importAll(tb, format, text)
	if len(errs) > 0 {
		tb.Fatalf("import: %v", errs[0])
	}
	return cases
}

// importAll reads a text to its end and checks every case and error of it.
func importAll(tb testing.TB, format Format, text string) ([]scenario.Case, []*scenario.Error) {
	tb.Helper()
	var cases []scenario.Case
	var errs []*scenario.Error
	ids := map[string]bool{}
	for c, err := range Import(format, "folder/file.json", strings.NewReader(text), new(Counts)) {
		if err != nil {
			errs = append(errs, checkError(tb, err))
			continue
		}
		checkCase(tb, c)
		if ids[c.ID] {
			tb.Fatalf("case %s twice", c.ID)
		}
		ids[c.ID] = true
		cases = append(cases, c)
	}
	if len(cases)+len(errs) == 0 {
		tb.Fatal("neither a case nor an error")
	}
	return cases, errs
}

var (
	grammar    = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{1,128}$`)
	digestForm = regexp.MustCompile(`^((hmac-)?sha256:[0-9a-f]{64})?$`)
)

// checkCase checks what Import promises of every case.
func checkCase(tb testing.TB, c scenario.Case) {
	tb.Helper()
	for _, id := range []string{c.ID, string(c.Agent), string(c.Workflow)} {
		if !grammar.MatchString(id) {
			tb.Fatalf("case %s: %q is no id", c.ID, id)
		}
	}
	if len(c.Steps) > scenario.StepsMax {
		tb.Fatalf("case %s: %d steps", c.ID, len(c.Steps))
	}
	earlier := map[string]bool{}
	for _, s := range c.Steps {
		if earlier[s.ID] {
			tb.Fatalf("case %s: step %s twice", c.ID, s.ID)
		}
		parents := map[string]bool{}
		for _, p := range s.Parents {
			if !earlier[p.Step] || parents[p.Step] || p.Dep != entry.Hard && p.Dep != entry.Soft {
				tb.Fatalf("case %s step %s: parent %+v is not earlier, or is there twice", c.ID, s.ID, p)
			}
			parents[p.Step] = true
		}
		earlier[s.ID] = true
		checkStepForm(tb, s)
	}
}

func checkStepForm(tb testing.TB, s scenario.Step) {
	tb.Helper()
	if !grammar.MatchString(s.ID) || !grammar.MatchString(string(s.Agent)) {
		tb.Fatalf("step %q of %q: no id", s.ID, s.Agent)
	}
	if len(s.Parents) > scenario.ParentsMax || len(s.Tool) > scenario.ToolMax {
		tb.Fatalf("step %s over a limit", s.ID)
	}
	if (s.Failure != nil) != (s.Outcome == scenario.Failed) {
		tb.Fatalf("step %s: outcome %s with failure %v", s.ID, s.Outcome, s.Failure)
	}
	digests := []entry.Digest{s.InputDigest, s.OutputDigest}
	if f := s.Failure; f != nil {
		if f.Class == "" || f.Code == "" || f.Effects == "" || f.ReplaySafety == "" || f.Evidence == "" || len(f.Raw.Text) > scenario.TextMax {
			tb.Fatalf("step %s: failure %+v is incomplete", s.ID, f)
		}
		digests = append(digests, f.Evidence)
	}
	for _, d := range digests {
		if !digestForm.MatchString(string(d)) {
			tb.Fatalf("step %s: digest %q", s.ID, d)
		}
	}
	for _, n := range []*int64{s.CostMicroUSD, s.LatencyMS} {
		if n != nil && *n < 0 {
			tb.Fatalf("step %s: negative amount %d", s.ID, *n)
		}
	}
}

// checkError checks what Import promises of every error about the input.
func checkError(tb testing.TB, err error) *scenario.Error {
	tb.Helper()
	var wrong *scenario.Error
	if !errors.As(err, &wrong) {
		tb.Fatalf("error %v is no *Error", err)
	}
	if wrong.Problem == "" || wrong.File == "" || wrong.Detail == "" || wrong.Remedy == "" {
		tb.Fatalf("error %+v is incomplete", wrong)
	}
	if wrong.Field != "" && wrong.Field[0] != '/' {
		tb.Fatalf("field %q is no JSON pointer", wrong.Field)
	}
	return wrong
}

// parentList writes the edges into a step as "1 0~": hard to 1, soft to 0.
func parentList(s scenario.Step) string {
	var all []string
	for _, p := range s.Parents {
		if p.Dep == entry.Soft {
			p.Step += "~"
		}
		all = append(all, p.Step)
	}
	return strings.Join(all, " ")
}
