package api_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// protocolStatus is the list of protocol.md, section 4.
const protocolStatus = `malformed 400 · unsupported-alg 400 · bad-signature 400 · unknown-issuer 401 · unauthorized-role 403 · no-standing 403 ·
wrong-audience 403 · scope-exceeds-policy 403 · not-found 404 · id-conflict 409 · state-conflict 409 · policy-superseded 409 ·
fenced-dependency 409 · stale-epoch 409 · too-large 413 · stale 422 · unknown-subject 422 · scope-mismatch 422 · rate-limited 429 ·
not-ready 503 · insufficient-storage 507`

// The catalogue has every problem of package entry, with the status of the
// protocol and something to say.
// Draft: ERR-1.
func TestCatalogueIsComplete(t *testing.T) {
	status := map[entry.Problem]int{}
	for item := range strings.SplitSeq(strings.Join(strings.Fields(protocolStatus), " "), " · ") {
		name, code, _ := strings.Cut(item, " ")
		number, err := strconv.Atoi(code)
		if err != nil {
			t.Fatal(err)
		}
		status[entry.Problem(name)] = number
	}
	declared := problems(t)
	if len(declared) != len(status) || len(api.Types()) != len(status) {
		t.Fatalf("%d declared, %d in the protocol, %d in the catalogue", len(declared), len(status), len(api.Types()))
	}
	last := 0
	for _, problem := range api.Types() {
		if problem.Status != status[problem.Name] || !declared[problem.Name] || problem.Title == "" || problem.Remedy == "" || len(problem.Text) < 60 {
			t.Errorf("%+v", problem)
		}
		if problem.Status < last {
			t.Errorf("%s out of order", problem.Name)
		}
		last = problem.Status
		for _, code := range []string{string(problem.Name), problem.URI()} {
			if found, ok := api.Explain(code); !ok || found != problem {
				t.Errorf("%s is not explained", code)
			}
		}
	}
	if _, ok := api.Explain("no-such-problem"); ok {
		t.Error("an unknown problem is explained")
	}
}

// problems parses the constants of type Problem in package entry.
func problems(t *testing.T) map[entry.Problem]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../ledger/entry/refusal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[entry.Problem]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Problem" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[entry.Problem(text)] = true
		}
		return true
	})
	return found
}

// A refusal becomes a problem with its own remedy, or that of its type.
func TestNewProblem(t *testing.T) {
	own := api.NewProblem(entry.Refuse(entry.Stale, "iat", "%d is old", 7).WithRemedy("hurry"))
	if own.Name() != entry.Stale || own.Status != 422 || own.Field != "iat" || own.Detail != "7 is old" || own.Remedy != "hurry" || own.Temporary() {
		t.Errorf("%+v", own)
	}
	own.SetRequest("r-1")
	if own.RequestID() != "r-1" || own.Error() != "stale: iat: 7 is old (hurry)" {
		t.Errorf("%q in %q", own.Error(), own.RequestID())
	}
	general := api.NewProblem(entry.Refuse(entry.NotReady, "", "off"))
	if general.Remedy == "" || !general.Temporary() {
		t.Errorf("%+v", general)
	}
	if unknown := api.NewProblem(entry.Refuse("made-up", "", "?")); unknown.Status != http.StatusInternalServerError || unknown.Name() != "" {
		t.Errorf("%+v", unknown)
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		if !api.NewStatus(status, "", "").Temporary() {
			t.Errorf("%d is for good", status)
		}
	}
	plain := api.NewStatus(http.StatusTeapot, "short", "stout")
	if plain.Error() != "I'm a teapot: short (stout)" || plain.RequestID() != "" {
		t.Error(plain)
	}
}

// FuzzDecodeBatchLine looks for lines that are understood as a result and as a
// problem, and for panics.
func FuzzDecodeBatchLine(f *testing.F) {
	f.Add([]byte(`{"index":1,"registered_at":2,"proof":[]}`))
	f.Add([]byte(`{"index":1,"registered_at":2,"duplicate":true,"proof":["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]}` + "\n"))
	f.Add([]byte(`{"type":"urn:agent-recovery:problem:stale","title":"t","status":422,"detail":"d","remedy":"r"}`))
	f.Add([]byte(`{"type":1}`))
	f.Add([]byte(`{"index":1,"index":2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		result, problem, err := api.DecodeBatchLine(line)
		if (err == nil) == (result == nil && problem == nil) || result != nil && problem != nil {
			t.Fatalf("result %v, problem %v, error %v", result, problem, err)
		}
		if result == nil {
			return
		}
		again, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		same, _, err := api.DecodeBatchLine(again)
		if err != nil || same.Index != result.Index || len(same.Proof) != len(result.Proof) {
			t.Fatalf("%s read again: %+v, %v", again, same, err)
		}
	})
}

func ExampleExplain() {
	stale, _ := api.Explain("stale")
	fmt.Println(stale.Status, stale.Title)
	fmt.Println(stale.Remedy)
	// Output:
	// 422 The entry is too old, or from the future
	// set the clock right, and sign the entry again with a new jti
}
