package bundle_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"recoveryledger/testdata/python"
)

// ofTheDraft reports whether a vector is about the core that the Internet-Draft has: it has neither
// proofs of absence nor tasks.
func ofTheDraft(name string, v *bundleVector, text []byte) bool {
	return !strings.Contains(v.WantErr, "ABS") && !bytes.Contains(text, []byte(`"subjects":[`)) && name != "good-seed-by-task"
}

// strangersVerdict is what a program says that was written from the text of the draft alone: ok, or
// the step that refuses; and of an accepted bundle each own member's method, or refused.
type strangersVerdict struct {
	Verdict string            `json:"verdict"`
	Members map[string]string `json:"members"`
}

// TestBundleCheckByTheDraft has the program of a stranger, who had the text of the Internet-Draft
// and nothing else, check the vectors.
func TestBundleCheckByTheDraft(t *testing.T) {
	interpreter := python.Interpreter(t)
	vectors, dir := readBundleVectors(t), t.TempDir()
	var names, argv []string
	for _, name := range slices.Sorted(maps.Keys(vectors)) {
		members, _ := caseOf(t, vectors[name], vectors).(map[string]any)
		text := textOf(t, members["bundle"])
		if !ofTheDraft(name, vectors[name], text) {
			continue
		}
		members["bundle"] = string(text)
		data, err := json.Marshal(members)
		must(t, err)
		file := filepath.Join(dir, name+".json")
		must(t, os.WriteFile(file, data, 0o600))
		names, argv = append(names, name), append(argv, file)
	}
	out, err := exec.CommandContext(t.Context(), interpreter, append([]string{"../../testdata/crosscheck/bundle_by_draft.py"}, argv...)...).Output()
	must(t, err)
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(names) || len(names) < 400 {
		t.Fatalf("%d verdicts of %d vectors", len(lines), len(names))
	}
	for i, name := range names {
		v := vectors[name]
		var got strangersVerdict
		must(t, json.Unmarshal(lines[i], &got))
		want := strangersVerdict{Verdict: "ok"}
		if v.WantErr != "" {
			want.Verdict, _, _ = strings.Cut(v.WantErr, " ")
		} else if v.Want.Incident != 0 {
			want.Members = map[string]string{}
			for _, c := range v.Want.Commands {
				if want.Members[c.Exec] = c.Method; c.Refused != "" {
					want.Members[c.Exec] = "refused"
				}
			}
		}
		if len(want.Members) == 0 {
			got.Members, want.Members = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s: the draft says %v, want %v", name, v.Desc, got, want)
		}
	}
	t.Logf("%d bundles", len(names))
}
