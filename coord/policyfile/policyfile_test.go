package policyfile

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// defaultPolicy is the file that arl policy show --default prints.
func defaultPolicy(tb testing.TB) string {
	tb.Helper()
	text, err := Format(entry.Genesis("test"))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// What is shown can be applied: the file of a policy gives the policy, with all
// its members.
func TestPolicyFileReadsWhatItWrites(t *testing.T) {
	full := entry.Genesis("test")
	full.Witnesses = "log x\nquorum none\n"
	full.LedgerKeys = []string{"a+b+c"}
	full.Recovery = recovery.Default().JSON()
	for _, want := range []*entry.Policy{entry.Genesis("test"), full} {
		text, err := Format(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse("policy.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want.Header = entry.Header{}
		asJSON := func(p *entry.Policy) string {
			out, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if diff := cmp.Diff(asJSON(want), asJSON(got)); diff != "" {
			t.Errorf("policy (-want +got):\n%s", diff)
		}
	}
}

// Every error names file, line and column, and what is wrong there.
func TestPolicyFileErrorsNameThePlace(t *testing.T) {
	good := defaultPolicy(t)
	replace := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in\n%s", old, good)
		}
		return strings.Replace(good, old, with, 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"unknown", replace("decide_ms:", "decide_mz:"), `p.yaml:5:3: unknown field "decide_mz" (did you mean decide_ms?)`},
		{"unknown far", replace("decide_ms:", "bananas:"), `p.yaml:5:3: unknown field "bananas"`},
		{"type", replace("decide_ms: 600000", "decide_ms: soon"), "p.yaml:5:14: cannot unmarshal string"},
		{"fraction", replace("decide_ms: 600000", "decide_ms: 1.5"), "p.yaml:5:14: windows.decide_ms: 1.5 is not an integer"},
		{"zero", replace("decide_ms: 600000", "decide_ms: 0"), "p.yaml:5:14: windows.decide_ms: 0, want a positive number"},
		{"negative", replace("members: 100", "members: -1"), "limits.incident.members: -1 is negative"},
		{"missing", replace("  decide_ms: 600000\n", ""), "p.yaml:5:3: windows.decide_ms: missing"},
		{"missing block", replace("max_step_ms: 60000\n", ""), "p.yaml:1:1: max_step_ms: missing"},
		{"null", replace("decide_ms: 600000", "decide_ms: null"), "windows.decide_ms"},
		{"twice", replace("quorum:", "windows: {}\nquorum:"), `mapping key "windows" already defined at`},
		{"role", replace("- enroller", "- king"), "p.yaml:3:7: roles.agent[0]: \"king\" is none of"},
		{"granted", replace("agent:", "operator:"), `roles: only the authority grants the role "operator"`},
		{"syntax", good + "quorum: [\n", "p.yaml:"},
		{"anchor", replace("roles:", "roles: &r"), "anchors, aliases, merge keys and tags are not allowed"},
		{"tag", replace("decide_ms: 600000", "decide_ms: !!int 600000"), "anchors, aliases, merge keys and tags are not allowed"},
		{"documents", good + "---\n" + good, "2 documents, want one"},
		{"empty", "", "documents, want one"},
		{"scalar", "7\n", "p.yaml:1:1"},
		{"list", "- 7\n", "p.yaml:1:"},
		{"key", "authority:\n  - principal: a\n    key: AAAA\n" + good, "not a SubjectPublicKeyInfo"},
		{"header", "jti: x\n" + good, `unknown field "jti"`},
		{"rules", good + "recovery: {rulez: []}\n", "recovery.rulez: unknown member (did you mean rules?)"},
		{"rules and a fraction", good + "recovery: {rules: [], x: 1.5}\n", "recovery.x: 1.5 is a floating-point number"},
		{"large", good + "#" + strings.Repeat("x", Max), "over the limit of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, err := Parse("p.yaml", []byte(c.text))
			if err == nil || policy != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("policy %v, error %v, want %q", policy, err, c.want)
			}
		})
	}
}

// What no ledger could obey is refused at its place in the file.
func TestPolicyFileObeyable(t *testing.T) {
	good := defaultPolicy(t)
	for text, want := range map[string]string{
		good:                                     "",
		good + "witnesses: |\n  quorum none\n":   "",
		good + "witnesses: |\n  quorum nobody\n": `:12: witnesses: witness policy: line 1: quorum "nobody" is a second one, or unknown (write a witness policy`,
		strings.Replace(good, "iat_ms: 300000", "iat_ms: 300", 1): "p.yaml:12:11: windows.iat_ms: 300: iat is in seconds",
		good + "ledger_keys:\n  - nonsense\n":                     `ledger_keys[0]: "nonsense" is not a verifier key: want name+hash+base64 (name verifier keys of the ledger`,
	} {
		policy, err := Parse("p.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err = Obeyable("p.yaml", []byte(text), policy); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The limit holds at the limit and one past it.
func TestPolicyFileLimit(t *testing.T) {
	good := defaultPolicy(t)
	padded := func(size int) []byte { return []byte(good + "#" + strings.Repeat("x", size-len(good)-1)) }
	if _, err := Parse("p.yaml", padded(Max)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := Parse("p.yaml", padded(Max+1)); err == nil {
		t.Error("past the limit: no error")
	}
}

// The words that are suggested are those that a policy has.
func TestPolicyMembersAreTheMembers(t *testing.T) {
	good := defaultPolicy(t)
	for line := range strings.Lines(good) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && entry.Suggest(name, policyMembers()) != " (did you mean "+name+"?)" {
			t.Errorf("%s is no known member", name)
		}
	}
}

// FuzzPolicyFile looks for a file that is read as a policy which, written again,
// is read as another, or not at all.
func FuzzPolicyFile(f *testing.F) {
	good := defaultPolicy(f)
	f.Add([]byte(good))
	f.Add([]byte(strings.ReplaceAll(good, "\n  ", "\n    ")))
	f.Add([]byte(good + "witnesses: |\n  quorum none\n" + string(recovery.DefaultDocument())))
	f.Add([]byte(good + "recovery: {rules: [{when: \"true\", n: 0x10}]}\n"))
	f.Add([]byte("roles: &a [*a]\n"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Add([]byte("roles: {agent: [enroller]}\nwindows: 1_000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		policy, err := Parse("fuzz.yaml", data)
		if err != nil {
			return
		}
		first, err := Format(policy)
		if err != nil {
			t.Fatalf("format: %v", err)
		}
		again, err := Parse("again.yaml", first)
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, first)
		}
		second, err := Format(again)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v: not the same\n%s\n%s", err, first, second)
		}
	})
}

// docs/policy.md has a row for every member of the ledger's policy: meaning,
// default, and what goes wrong when it is too small.
func TestPolicyPageHasEveryMember(t *testing.T) {
	content, err := os.ReadFile(filepath.FromSlash("../../docs/policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Format(entry.Genesis(""))
	if err != nil {
		t.Fatal(err)
	}
	var document any
	members := map[string]jsontext.Value{"/witnesses": nil, "/ledger_keys": nil, "/index/required": nil, "/recovery": nil, "/previous": nil, "/authority": nil}
	if err = yaml.Unmarshal(text, &document); err == nil {
		err = flatten("", document, members)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path := range members {
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
		name = strings.TrimSuffix(strings.TrimPrefix(name, "limits."), ".0")
		if !regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(name) + "`.*\\|").Match(content) {
			t.Errorf("docs/policy.md has no row for %s", name)
		}
	}
}
