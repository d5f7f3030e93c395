package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/testdata/cases"
	"recoveryledger/verify/bundle"
)

// bundleCase returns the case of a bundle vector, which may begin from the case of another one.
func bundleCase(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "bundle", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var vector struct {
		Case  any           `json:"case"`
		Like  string        `json:"like"`
		Patch []cases.Patch `json:"patch"`
	}
	if err := json.Unmarshal(data, &vector); err != nil {
		t.Fatal(err)
	}
	if vector.Like != "" {
		return cases.Apply(t, bundleCase(t, vector.Like), vector.Patch)
	}
	return vector.Case
}

// bundleFiles writes the case of a bundle vector as the files that a user has.
func bundleFiles(t *testing.T, name string) (now string) {
	t.Helper()
	text, err := json.Marshal(bundleCase(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var vector struct {
		Accepted bundle.Accepted `json:"accepted"`
		Bundle   bundle.Bundle   `json:"bundle"`
	}
	if err := jsonv2.Unmarshal(text, &vector); err != nil {
		t.Fatal(err)
	}
	accepted, b := vector.Accepted, vector.Bundle
	t.Chdir(t.TempDir())
	t.Setenv("ARL_HOME", t.TempDir())
	for file, encode := range map[string]func() ([]byte, error){"root.json": accepted.Root.Encode, "accepted.json": accepted.Encode, "bundle.json": b.Encode} {
		text, err := encode()
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return "2026-09-21T14:14:00Z"
}

// runARL runs a command line and returns what it prints and its exit code.
func runARL(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, messages bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &messages)
	root := a.rootCommand()
	root.SetArgs(args)
	root.SilenceErrors, root.SilenceUsage = true, true
	err := root.ExecuteContext(t.Context())
	if err != nil {
		a.printError(&messages, err)
	}
	return out.String(), messages.String(), exit.Code(err)
}

// TestVerifyBundle reads what arl verify says of bundles.
func TestVerifyBundle(t *testing.T) {
	at := bundleFiles(t, "good-approved")
	line := []string{"verify", "bundle.json", "--root", "root.json", "--accepted", "accepted.json", "--at", at}
	stdout, stderr, code := runARL(t, line...)
	if code != exit.OK || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{
		"verified: bundle for worker: authorize of incident 25 at entry 29, epoch 1, until 2026-09-21T14:43:49.000Z\n",
		"worker#charge: compensate, has the outcome compensated (SCO-3: entry 12 from 25, SCO-1: entry 13 from 12, SCO-1: entry 19 from 13)\n",
		"worker#draft: restore to worker#c0, released; what stands: worker#mail (",
		"AGT-1 inclusion (21): ", "AGT-2 INC-5 (2): distinct approvers", "AGT-3 SCO-5 (6): ", "not checked\n  - witnesses: ", "a newer usable checkpoint",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	stdout, _, _ = runARL(t, append(line, "--output", "json")...)
	var out verifiedBundle
	if err := jsonv2.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	if out.Incident != 25 || len(out.Commands) != 6 || len(out.Checked) < 15 || !out.Confirmed || out.Refused != "" {
		t.Errorf("%+v", out)
	}
	stdout, stderr, code = runARL(t, append(line[:len(line)-1], "2026-09-21T15:00:00Z")...)
	if code != exit.Verification || !strings.Contains(stderr, "AGT-2: decision 29: exp") || !strings.Contains(stdout, "AGT-2 TRU-3 (1)") || strings.Contains(stdout, "not checked\n") {
		t.Errorf("late: exit %d: %s\n%s", code, stderr, stdout)
	}
	if _, stderr, code = runARL(t, "verify", "bundle.json", "--root", "root.json", "--at", at); code != exit.Verification || !strings.Contains(stderr, "no head was accepted before") {
		t.Errorf("nothing accepted: exit %d: %s", code, stderr)
	}
	if _, _, code = runARL(t, append(line[:len(line)-1], "noon")...); code != exit.Usage {
		t.Errorf("no time: exit %d", code)
	}
	if _, _, code = runARL(t, "verify", "bundle.json", "--root", "root.json", "--accepted", "missing.json"); code != exit.NotFound {
		t.Errorf("no state: exit %d", code)
	}
	if _, stderr, code = runARL(t, "verify", "bundle.json", "--root", "root.json", "--accepted", "root.json"); code != exit.Verification || !strings.Contains(stderr, "root.json") {
		t.Errorf("another state: exit %d: %s", code, stderr)
	}
}

// TestVerifyBundleOfAgent looks at a bundle with what an agent has accepted, as it
// stands in the agent's state; a document that is damaged is refused.
func TestVerifyBundleOfAgent(t *testing.T) {
	at := bundleFiles(t, "good-approved")
	content, err := os.ReadFile("accepted.json")
	if err != nil {
		t.Fatal(err)
	}
	line := []string{"verify", "bundle.json", "--root", "root.json", "--at", at, "--accepted"}
	document := fmt.Appendf(nil, "arl-agent/1 accepted %x\n%s", sha256.Sum256(content), content)
	if err := os.WriteFile("accepted.doc", document, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runARL(t, append(line, "accepted.doc")...); code != exit.OK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if err := os.WriteFile("damaged.doc", append(document, ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runARL(t, append(line, "damaged.doc")...); code != exit.Verification || !strings.Contains(stderr, "damaged.doc: the document is damaged") {
		t.Errorf("damaged: exit %d: %s", code, stderr)
	}
}

// TestVerifyBundleFirst looks at a bundle with nothing accepted before, written over several lines.
func TestVerifyBundleFirst(t *testing.T) {
	at := bundleFiles(t, "good-automatic")
	text, err := os.ReadFile("bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("spaced.json", spaced.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runARL(t, "verify", "spaced.json", "--root", "root.json", "--accepted", "accepted.json", "--at", at); code != exit.OK {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// TestVerifyBundleConvictsByTwoRootsAlone: two signed roots of one size convict the ledger, and are
// kept. A proof that fails refuses the bundle and convicts nobody: nobody signs the proof, so
// whoever carried the bundle may have altered the proof.
func TestVerifyBundleConvictsByTwoRootsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		code     int
		evidence bool
	}{
		"head-fork":         {exit.Inconsistent, true},
		"head-inconsistent": {exit.Verification, false},
		"good-automatic":    {exit.Verification, false}, // whose proof the carrier alters
	} {
		t.Run(name, func(t *testing.T) {
			at := bundleFiles(t, name)
			if name == "good-automatic" {
				text, err := os.ReadFile("bundle.json")
				if err != nil {
					t.Fatal(err)
				}
				altered := bytes.Replace(text, []byte(`"consistency":["`), []byte(`"consistency":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","`), 1)
				if err := os.WriteFile("bundle.json", altered, 0o600); err != nil || bytes.Equal(altered, text) {
					t.Fatal("nothing is altered", err)
				}
			}
			stdout, stderr, code := runARL(t, "verify", "bundle.json", "--root", "root.json", "--accepted", "accepted.json", "--at", at)
			if code != c.code || strings.Contains(stderr, "Evidence: ") != c.evidence || !strings.HasPrefix(stdout, "REFUSED: ") {
				t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
			}
			if !c.evidence && !strings.Contains(stderr, "Remedy: ask another node of the ledger") {
				t.Errorf("no remedy: %s", stderr)
			}
			if _, err := os.Stat(filepath.Join(os.Getenv("ARL_HOME"), "evidence")); (err == nil) != c.evidence {
				t.Errorf("the directory of evidence: %v", err)
			}
		})
	}
}

// TestVerifyBundleAlone says that several bundles are not verified together, and
// names the file of what is none.
func TestVerifyBundleAlone(t *testing.T) {
	bundleFiles(t, "good-automatic")
	_, messages, code := runARL(t, "verify", "bundle.json", "bundle.json", "--root", "root.json")
	if code != exit.Usage || !strings.Contains(messages, "verified alone") {
		t.Errorf("exit code %d: %s", code, messages)
	}
	if err := os.WriteFile("bad.json", []byte(`{"inclusion":1,"steps":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, messages, code = runARL(t, "verify", "bad.json", "--root", "root.json"); code != exit.Verification || !strings.Contains(messages, "bad.json: ") {
		t.Errorf("no bundle: exit code %d: %s", code, messages)
	}
}

// TestVerifyBundleWithRefusedMembers: a bundle that does not hold for a member
// does not look fine, though its agent undoes the others.
func TestVerifyBundleWithRefusedMembers(t *testing.T) {
	for want, spoil := range map[string]func(*bundle.Bundle){
		"the agent answers them `refused`, and undoes the others": func(b *bundle.Bundle) { b.Steps[3].From = 12 },
		"evidence is missing: fetch the bundle again":             func(b *bundle.Bundle) { b.Steps = slices.Delete(b.Steps, 3, 4) },
	} {
		t.Run(want, func(t *testing.T) {
			at := bundleFiles(t, "good-automatic")
			text, err := os.ReadFile("bundle.json")
			if err != nil {
				t.Fatal(err)
			}
			b, err := bundle.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			spoil(b)
			if text, err = b.Encode(); err == nil {
				err = os.WriteFile("bundle.json", text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			line := []string{"verify", "bundle.json", "--root", "root.json", "--accepted", "accepted.json", "--at", at}
			stdout, stderr, code := runARL(t, line...)
			if code != exit.Verification || !strings.Contains(stdout, "REFUSED: ") || !strings.Contains(stdout, ", released") ||
				!strings.Contains(stderr, want) || !strings.Contains(stderr, "members refused, first worker#") {
				t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
			}
			stdout, _, code = runARL(t, append(line, "--output", "json")...)
			var out verifiedBundle
			if err := jsonv2.Unmarshal([]byte(stdout), &out); err != nil {
				t.Fatal(err)
			}
			if code != exit.Verification || out.Refused != "" || !slices.ContainsFunc(out.Commands, func(c bundleCommand) bool { return c.Refused != "" }) {
				t.Errorf("exit %d: %+v", code, out)
			}
		})
	}
}
