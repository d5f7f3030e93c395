package simulation

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
)

// root is the repository, seen from this package.
const root = "../../../.."

// huntMax is how many seeds are run at most to find a bug.
const huntMax = 5000

// TestChaosBugs plants each of the bugs in testdata/bugs, in a copy of the one
// file that its patch is for, and with ARL_CHAOS wants the simulation to find it:
// each costs a build of all that depends on the file.
func TestChaosBugs(t *testing.T) {
	patches, err := filepath.Glob("testdata/bugs/*.patch")
	if err != nil || len(patches) < 10 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		t.Run(name, func(t *testing.T) {
			overlay := plant(t, patch)
			if !budget.Large() {
				return // that it still applies is all that is asked
			}
			seed, found := hunt(t, overlay)
			t.Log(found)
			if r := simulate(seed, newKeys(t), nil); r.err != nil {
				t.Errorf("seed %d fails without the bug too: %v", seed, r.err)
			}
		})
	}
}

// plant applies a patch to a copy of its file, and returns the overlay that puts
// the copy in its place.
func plant(t *testing.T, patch string) string {
	t.Helper()
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`).FindSubmatch(text)
	if path == nil {
		t.Fatalf("%s names no file", patch)
	}
	dir, file := t.TempDir(), string(path[1])
	original, err := filepath.Abs(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	planted := filepath.Join(dir, file)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: planted}})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(planted), 0o700)
	}
	if err == nil {
		err = os.WriteFile(planted, content, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", "-")
	apply.Dir, apply.Stdin = dir, bytes.NewReader(text)
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%s no longer applies to %s: make the bug anew (%v)\n%s", patch, file, err, out)
	}
	return filepath.Join(dir, "overlay.json")
}

// hunt builds this test with a bug in it, and returns what the first seed that
// fails is, and says.
func hunt(t *testing.T, overlay string) (seed uint64, says string) {
	t.Helper()
	binary := filepath.Join(filepath.Dir(overlay), "simulation.test")
	build := needs.Go(t.Context(), "test", "-c", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestHunt$", "-test.v")
	run.Env = append(os.Environ(), fmt.Sprintf("ARL_HUNT=%d", huntMax))
	out, err := run.CombinedOutput()
	found := regexp.MustCompile(`(?m)^found by seed ([0-9]+): .*$`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("no seed of %d finds it: %v\n%s", huntMax, err, out)
	}
	if seed, err = strconv.ParseUint(string(found[1]), 10, 64); err != nil {
		t.Fatal(err)
	}
	return seed, string(found[0])
}

// TestHunt runs seeds until one fails, as many as ARL_HUNT says: TestChaosBugs
// starts it, with a bug in the code.
func TestHunt(t *testing.T) {
	most, hunting := number("ARL_HUNT")
	if !hunting {
		most = 1 // that there is nothing to find
	}
	keys := newKeys(t)
	for seed := range most {
		if r := simulate(seed, keys, nil); r.err != nil {
			line, _, _ := strings.Cut(r.err.Error(), "\n")
			fmt.Printf("found by seed %d: %s\n", seed, line)
			if !hunting {
				t.Error(r.err)
			}
			return
		}
	}
}
