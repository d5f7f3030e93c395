package importer

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

const sweSample = `{"environment": "swe_main", "trajectory": [
 {"action": "open a.py\n", "observation": "[File: a.py]", "thought": "look"},
 {"action": "pyhton a.py", "observation": "bash: pyhton: command not found"},
 {"action": "edit 1:2\nx\nend_of_edit", "observation": "done"},
 {"action": "python a.py", "observation": "Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'x'"},
 {"action": "python a.py -v", "observation": "ok"},
 {"action": "", "observation": ""}], "history": [], "info": {"exit_status": "exit_cost"}}`

const handsSample = `[{"id": 0, "source": "user", "action": "message", "args": {"content": "do it"}},
 {"id": 1, "source": "agent", "action": "run", "args": {"command": "make"}},
 {"id": 2, "source": "agent", "cause": 1, "observation": "run", "content": "make: *** [all] Error 2", "extras": {"metadata": {"exit_code": 2}}},
 {"id": 3, "source": "agent", "action": "run", "args": {"command": "make all"}},
 {"id": 4, "source": "agent", "cause": 3, "observation": "run", "content": "", "extras": {"metadata": {"exit_code": 0}}},
 {"id": 5, "source": "agent", "action": "read", "args": {"path": "/x"}},
 {"id": 6, "source": "agent", "cause": 5, "observation": "error", "content": "File not found: /x"},
 {"id": 7, "source": "environment", "cause": 9, "observation": "null", "content": ""},
 {"id": 8, "source": "agent", "action": "finish", "args": {}},
 {"id": 9, "source": "agent", "action": "edit", "args": {"path": "/y"}}]`

func TestImportSWEAgent(t *testing.T) {
	cases := importText(t, SWEAgent, sweSample)
	checkSummary(t, cases, `folder/file | swe-agent/swe_main | swe-agent/folder/file | swe-agent | failed
0 | swe-agent/swe_main | open | none | <> | ok
1 | swe-agent/swe_main | pyhton | undeclared | <0~> | failed | output.hallucinated_tool | unknown | unknown
2 | swe-agent/swe_main | edit | reversible | <1~> | ok
3 | swe-agent/swe_main | python | undeclared | <2~> | failed | output.bad_arguments | unknown | unknown
4 | swe-agent/swe_main | python | undeclared | <3~> | ok
5 | swe-agent/swe_main | none | undeclared | <4~> | ok`)
	if v := cases[0].Verdict; v.String() != "budget.exceeded" {
		t.Errorf("verdict %s", v)
	}
}

func TestImportOpenHands(t *testing.T) {
	checkSummary(t, importText(t, OpenHands, handsSample), `folder/file | openhands/file | openhands/folder/file | openhands | not_observed
0 | openhands/file | run | undeclared | <> | failed | tool.error | unknown | unknown
1 | openhands/file | run | undeclared | <0~> | ok
2 | openhands/file | read | none | <1~> | failed | output.bad_arguments | none | safe
3 | openhands/file | edit | reversible | <2~> | not_observed`)
	counts := new(Counts)
	for _, err := range Import(OpenHands, "file", strings.NewReader(handsSample), counts) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := counts.String(); got != "events taken: 7 of 10; left: 2 messages and states, which are no actions of the agent, 1 observations of what is no step" {
		t.Error(got)
	}
}

// The recorded runs of others are read, and what is no run is named.
func TestCodingRuns(t *testing.T) {
	steps := 0
	for _, c := range importFiles(t, OpenHands, dataFiles(t, "openhands", ".json")) {
		steps += len(c.Steps)
	}
	if steps != 8 {
		t.Errorf("openhands: %d steps", steps)
	}
	runs, failed, refused := 0, 0, 0
	for _, file := range dataFiles(t, "swe_agent", ".traj") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for c, err := range Import(SWEAgent, file, bytes.NewReader(text), new(Counts)) {
			if err != nil {
				refused++
				continue
			}
			runs++
			for _, s := range c.Steps {
				if s.Outcome == scenario.Failed {
					failed++
				}
			}
		}
	}
	if runs != 6 || refused != 1 || failed != 1 {
		t.Errorf("swe-agent: %d runs, %d refused, %d failed steps", runs, refused, failed)
	}
}

func FuzzImportSWEAgent(f *testing.F) {
	fuzzImport(f, SWEAgent, `{"trajectory": [{"action": 1}]}`, `{"trajectory": [], "info": {"exit_status": null}}`)
}

func FuzzImportOpenHands(f *testing.F) {
	fuzzImport(f, OpenHands, `[{"id": {}, "action": "run"}]`, `[{"id": 1, "action": "run", "source": "agent"}, {"cause": 1, "observation": "error", "extras": {"metadata": {"exit_code": -1}}}]`)
}
