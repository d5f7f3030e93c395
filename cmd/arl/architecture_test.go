package main_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

// module is the import path of the repository.
const module = "recoveryledger"

// arrows are the imports that packages of this module may have: each may
// import what is left of it on a line, and what that may import. A package
// that stands on no line is refused, and so is a name that is no package.
// docs/architecture.md shows the same lines; docs/decisions.md says why each is
// there.
const arrows = `
merkle ← ledger/entry ← verify ← ledger ← api/server ← cmd/arl
verify ← api ← coord ← api/server
verify ← verify/bundle ← api
verify ← verify/cose ← api/client
verify/cose ← cmd/arl/node
verify ← verify/tally ← cmd/arl/histories
api ← api/openapi ← api/server
api/certificate ← api/server
api ← api/words ← cmd/arl/histories
coord ← api/view ← api/server
api/words ← api/view ← api/console
coord/bundle ← api/view ← cmd/arl/exit
api/view ← api/report ← api/console
api/view ← api/notify ← cmd/arl/node
coord/coordinator ← api/notify
coord/recovery/scenario ← api/notify
ledger/process ← api/notify
ledger/redact ← api/notify
ledger ← api/notify
api/report ← cmd/arl/incidents ← cmd/arl
cmd/arl/access ← cmd/arl/incidents
coord ← api/console ← cmd/arl/node
coord/recovery/engine ← api/words/runs ← api/console/lab
api/words ← api/words/runs ← cmd/arl
coord/policyfile ← api/console/lab
api/console ← api/console/lab ← cmd/arl/consoles
verify/js ← api/console
coord ← api/act ← cmd/arl/exit
api/words ← api/act
ledger/keys ← api/act ← api/console
ledger/redact ← api/act
api/words ← cmd/arl/demo
coord/recovery/engine ← api/openapi
coord/recovery/scenario ← coord/recovery/ask ← api/openapi
api ← api/client ← api/client/agent ← cmd/arl/demo ← cmd/arl
api/client ← api/client/bridge ← cmd/arl/bridges ← cmd/arl
api/client ← api/client/directory
api/client/agent ← api/mcp ← cmd/arl/listen
coord/recovery/scenario ← api/mcp
ledger/durable ← api/mcp
ledger/process ← api/mcp
api/client/agent ← api/client/agent/simulation
docs/draft ← api/conformance ← cmd/arl/kits ← cmd/arl
docs/draft ← cmd/arl/glossary
cmd/arl/manual ← cmd/arl/kits
api ← api/conformance
ledger/process ← api/conformance
api/server ← api/conformance/stage ← api/conformance/admission ← api/conformance
merkle ← coord/compact ← coord/scope ← coord ← coord/coordinator ← api/server
coord ← coord/bundle ← api/server
coord/recovery ← coord
coord/ascending ← coord
coord/codec ← coord/hour ← coord
coord/codec ← coord/rollout ← coord
coord/recovery ← coord/sound ← coord
verify ← coord/sound
api ← coord/rollout
coord/recovery/judge ← coord/rollout
coord/recovery ← coord/rollout
coord/rollout ← api/worker
coord/recovery/engine ← api/attempts ← api/server
ledger ← api/attempts
api ← api/attempts
coord/rollout ← api/server
ledger/entry ← coord/recovery ← coord/recovery/scenario ← coord/recovery/engine ← api/server
coord/recovery/judge ← coord/recovery/engine ← coord/recovery/record ← cmd/arl
coord/recovery/engine ← coord/recovery/rehearse
coord/recovery/engine ← coord/recovery/drift
coord/recovery/figure ← coord/recovery/engine
coord/recovery/engine ← coord/recovery/adversary
verify ← coord/recovery/record
coord/rollout ← coord/recovery/record
coord/recovery ← coord/recovery/question ← coord/recovery/record
coord/recovery/question ← api/attempts
coord/recovery/scenario ← coord/recovery/enact ← coord/recovery/record
coord/recovery/enact ← api/attempts
ledger/bloom ← coord/recovery/scenario/firsts ← coord/recovery/scenario
coord/recovery/scenario ← coord/recovery/importer/foreign ← coord/recovery/importer ← cmd/arl
coord/recovery/scenario ← coord/recovery/importer/tried ← coord/recovery/importer
coord/recovery/scenario ← coord/recovery/importer/spanrow ← coord/recovery/importer
coord/recovery/scenario ← coord/recovery/importer/pieces ← coord/recovery/importer
coord/recovery/scenario ← coord/recovery/live ← cmd/arl
coord/recovery/scenario ← coord/recovery/program ← coord/recovery/engine
ledger/process ← coord/recovery/program
ledger/entry ← ledger/keys ← cmd/arl/demo
ledger/redact ← api/worker
ledger/durable ← api/worker
coord/recovery ← api/worker
ledger/durable ← ledger
ledger/entry ← ledger/disk ← ledger/anchor ← ledger
ledger/entry ← ledger/fair ← ledger
ledger/entry ← ledger/wallclock ← ledger
ledger/canonical ← ledger/entry
ledger/canonical ← coord/recovery/scenario
ledger/inorder ← coord/recovery/record
ledger/inorder ← api/attempts
ledger/disk ← ledger/engine ← ledger/dedup ← ledger
ledger/bloom ← ledger/dedup
ledger/engine ← ledger/tags ← ledger
ledger/entry ← ledger/agreement ← ledger
ledger/agreement ← ledger/cluster
ledger/durable ← ledger/cluster
ledger/durable ← ledger/cluster/site
ledger/agreement ← ledger/cluster/site
ledger/cluster ← ledger/cluster/peer ← cmd/arl/cell ← cmd/arl
ledger/cluster/scale
ledger/cluster/site ← ledger/cluster/peer
ledger/cluster/site ← cmd/arl/node
cmd/arl/node ← cmd/arl/cell
cmd/arl/terminal ← cmd/arl/cell
verify ← ledger/export ← ledger
ledger/durable ← ledger/export
ledger/export ← ledger/publish ← cmd/arl/node
ledger ← ledger/publish ← cmd/arl/backups
merkle ← ledger/backup ← cmd/arl/node
ledger/durable ← ledger/backup
cmd/arl/access ← cmd/arl/backups ← cmd/arl
cmd/arl/access ← cmd/arl/bridges
cmd/arl/manual ← cmd/arl/bridges
cmd/arl/access ← cmd/arl/rollouts ← cmd/arl
coord/recovery/rehearse ← cmd/arl/rollouts
coord/recovery/drift ← cmd/arl/rollouts
coord/recovery/adversary ← cmd/arl/rollouts
cmd/arl/manual ← cmd/arl/rollouts
coord/recovery/importer ← cmd/arl/rollouts
coord/recovery/record ← cmd/arl/rollouts
api/words ← cmd/arl/rollouts
coord/recovery/engine ← cmd/arl/rollouts
coord/policyfile ← cmd/arl/rollouts
api/words ← cmd/arl/backups
ledger/durable ← ledger/keys ← ledger/witness ← api/server
verify ← ledger/witness
verify ← ledger/complete ← api/server
ledger/complete ← coord/audit
ledger/durable ← api/client/agent
ledger/durable ← coord/recovery/engine
ledger/process ← api/worker
ledger/process ← api/client/agent
ledger/process ← coord/recovery/engine
ledger/process ← coord/recovery/live
api/client ← api/worker ← cmd/arl
coord ← cmd/arl/demo
coord ← coord/audit ← cmd/arl
coord/policyfile ← cmd/arl/node
cmd/arl/access ← cmd/arl/listen ← cmd/arl
cmd/arl/manual ← cmd/arl/listen
api/client/agent ← cmd/arl/listen
cmd/arl/exit ← cmd/arl/terminal ← cmd/arl/manual ← cmd/arl
cmd/arl/exit ← cmd/arl/config ← cmd/arl
api/worker ← cmd/arl/config
coord/policyfile ← cmd/arl/config
cmd/arl/terminal ← cmd/arl/access
cmd/arl/terminal ← cmd/arl/demo
cmd/arl/access ← cmd/arl/doctor ← cmd/arl/consoles
cmd/arl/doctor ← cmd/arl
cmd/arl/access ← cmd/arl/consoles ← cmd/arl
cmd/arl/access ← cmd/arl/failures ← cmd/arl
cmd/arl/manual ← cmd/arl/failures
cmd/arl/access ← cmd/arl/histories ← cmd/arl
coord/recovery/importer ← coord/recovery/record
ledger/redact ← coord/recovery/importer
ledger/keys ← coord/recovery/record
cmd/arl/node ← cmd/arl/access ← cmd/arl
api/client ← cmd/arl/access
cmd/arl/exit ← cmd/arl/glossary ← cmd/arl
api/client/agent ← cmd/arl/glossary
coord/recovery ← coord/policyfile ← cmd/arl
coord/sound ← coord/policyfile
cmd/arl/trust ← cmd/arl/node ← cmd/arl
api/server ← cmd/arl/node
api/certificate ← cmd/arl/node
cmd/arl/service ← cmd/arl/node
coord/coordinator ← api/metrics ← api/server
ledger/complete ← api/metrics
api/words ← api/metrics
ledger ← api/metrics
ledger/witness ← api/metrics
api/metrics ← cmd/arl/operations ← cmd/arl
cmd/arl/terminal ← cmd/arl/operations
coord ← cmd/arl/node
api/worker ← cmd/arl/exit ← cmd/arl/trust ← cmd/arl
ledger ← cmd/arl/exit
ledger/keys ← cmd/arl/exit
coord/audit ← cmd/arl/exit
coord/recovery/record ← cmd/arl/exit
`

// verifierForeignMax bounds the packages from outside that verify, and verify/bundle,
// depend on, directly or not. Others vendor the verifier, so each one is a cost to
// them; raise it only with a reason in docs/decisions.md. Internal packages of a
// library count: go-json-experiment/json 6, transparency-dev/merkle 3,
// edwards25519 2, sumdb/note 1.
const verifierForeignMax = 12

// TestArchitectureArrows parses every package and compares its imports of
// this module with the arrows.
func TestArchitectureArrows(t *testing.T) {
	allowed := mayImport(arrows)
	there := map[string]bool{}
	for _, p := range packages(t) {
		there[p.name] = true
		if _, ok := allowed[p.name]; !ok {
			t.Errorf("package %s stands on no arrow", p.name)
			continue
		}
		for _, imported := range p.imports() {
			name, own := strings.CutPrefix(imported, module+"/")
			if own && !allowed[p.name][name] {
				t.Errorf("%s imports %s: no arrow leads there", p.name, name)
			}
		}
	}
	for name := range allowed {
		if !there[name] {
			t.Errorf("an arrow names %s, and there is no such package", name)
		}
	}
}

// TestArchitectureForeign holds each heavy library to the one room that
// wraps it, and the pure rooms to no I/O.
func TestArchitectureForeign(t *testing.T) {
	only := map[string][]string{
		"github.com/cockroachdb/pebble":   {"ledger", "ledger/anchor", "ledger/complete", "ledger/dedup", "ledger/disk", "ledger/engine", "ledger/tags"},
		"github.com/labstack/echo":        {"api/server"},
		"go.etcd.io/":                     {"ledger/cluster"},
		"github.com/minio/minio-go/":      {"ledger/publish"},
		"github.com/danielgtaylor/huma":   {"api/openapi"},
		"github.com/sigstore":             {"ledger/keys"},
		"github.com/spf13/cobra":          {"cmd/arl", "cmd/arl/manual", "cmd/arl/backups", "cmd/arl/bridges", "cmd/arl/cell", "cmd/arl/incidents", "cmd/arl/rollouts"},
		"cel.dev/cel-go":                  {"coord/recovery"},
		"go.opentelemetry.io/collector":   {"coord/recovery/importer", "coord/recovery/importer/spanrow"},
		"github.com/modelcontextprotocol": {"api/mcp"},
		"github.com/secure-systems-lab/":  {"ledger/keys"},
	}
	pure := []string{"merkle", "ledger/entry", "verify", "verify/bundle", "coord/recovery", "coord/ascending", "coord/codec", "coord/hour", "coord/compact", "coord/scope", "coord/recovery/scenario",
		"coord/recovery/importer", "coord/recovery/importer/foreign", "coord/recovery/importer/pieces", "coord/recovery/importer/tried", "ledger/redact"}
	noHTTP := append([]string{"coord"}, pure...)
	for _, p := range packages(t) {
		for _, imported := range p.imports() {
			for library, rooms := range only {
				if strings.HasPrefix(imported, library) && !slices.Contains(rooms, p.name) {
					t.Errorf("%s imports %s, which belongs to %v", p.name, imported, rooms)
				}
			}
			if imported == "net/http" && slices.Contains(noHTTP, p.name) {
				t.Errorf("%s imports net/http", p.name)
			}
			if slices.Contains([]string{"net", "os", "os/exec", "math/rand", "math/rand/v2"}, imported) && slices.Contains(pure, p.name) {
				t.Errorf("%s is pure and imports %s", p.name, imported)
			}
		}
		if slices.Contains(pure, p.name) {
			for _, name := range []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"} {
				p.refuseUse(t, "time", name, "is pure and reads the clock with")
			}
		}
	}
}

// TestArchitectureClosure asks the go command what merkle, entry and the verifiers
// depend on in the end, and counts the verifiers' foreign packages. Receipts are
// verified without bundles.
func TestArchitectureClosure(t *testing.T) {
	banned := []string{
		module + "/coord", module + "/api", module + "/ledger/keys",
		"github.com/cockroachdb/", "github.com/labstack/", "github.com/danielgtaylor/", "github.com/sigstore/",
		"github.com/secure-systems-lab/", "cel.dev/", "net/http",
	}
	for _, p := range packages(t) {
		verifier := p.name == "verify" || p.name == "verify/bundle"
		if !verifier && p.name != "merkle" && p.name != "ledger/entry" {
			continue
		}
		var foreign []string
		for _, dep := range dependencies(t, p.name) {
			for _, prefix := range banned {
				if strings.HasPrefix(dep, prefix) || dep == module+"/ledger" {
					t.Errorf("%s depends on %s", p.name, dep)
				}
			}
			if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") {
				foreign = append(foreign, dep)
			}
		}
		t.Logf("%s: %d foreign packages: %s", p.name, len(foreign), strings.Join(foreign, " "))
		if verifier && len(foreign) > verifierForeignMax {
			t.Errorf("%s depends on %d foreign packages, want at most %d: %s", p.name, len(foreign), verifierForeignMax, strings.Join(foreign, " "))
		}
	}
}

// TestArchitectureWithout asks the go command: who uses the verifiers, the client or the log builds
// nothing of etcd, and nothing of the library for buckets. arl lacks the library for tests that
// compiles meta schemas at each start.
func TestArchitectureWithout(t *testing.T) {
	heavy := []string{"go.etcd.io/", "github.com/minio/minio-go/"}
	for name, without := range map[string][]string{
		"verify": heavy, "verify/bundle": heavy, "api/client": heavy, "api/client/agent": heavy, "ledger": heavy,
		"cmd/arl": {"github.com/santhosh-tekuri/"},
	} {
		for _, dep := range dependencies(t, name) {
			if slices.ContainsFunc(without, func(library string) bool { return strings.HasPrefix(dep, library) }) {
				t.Errorf("%s depends on %s", name, dep)
			}
		}
	}
}

// TestArchitectureSizes holds every package to its number of lines without tests: one
// that is over the limit has a room in it that should be a package.
func TestArchitectureSizes(t *testing.T) {
	for _, p := range packages(t) {
		most, lines := 4500, 0
		if p.name == "coord" || p.name == "cmd/arl" {
			most = 8000
		}
		for _, f := range p.files {
			lines += p.fset.File(f.FileStart).LineCount()
		}
		if lines > most {
			t.Errorf("package %s has %d lines, want at most %d: give a part of it a package of its own", p.name, lines, most)
		}
	}
}

// TestArchitectureTopLevel lists the repository's top level: what is there
// has a room.
func TestArchitectureTopLevel(t *testing.T) {
	rooms := strings.Fields("cmd ledger merkle verify coord api testdata docs go.mod go.sum Makefile README.md LICENSE")
	seen := map[string]bool{}
	for _, file := range tracked(t, root) {
		name, _, _ := strings.Cut(file, "/")
		if !seen[name] && !strings.HasPrefix(name, ".") && !slices.Contains(rooms, name) {
			t.Errorf("%s stands at the top level, which is fixed: %v", name, rooms)
		}
		seen[name] = true
	}
}

// tracked returns the files of the repository at dir that git tracks, as slash
// paths from there: keys, receipts and databases of who works in it are none of
// them. Options of git ls-files say otherwise. Without git it is all files outside
// of hidden directories.
func tracked(t *testing.T, dir string, options ...string) (files []string) {
	t.Helper()
	exists := func(file string) bool {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file)))
		return err == nil && !info.IsDir()
	}
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z"}, options...)...)
	list.Dir = dir
	if out, err := list.Output(); err == nil {
		files = strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		return slices.DeleteFunc(files, func(file string) bool { return !exists(file) }) // deleted, not committed yet
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && file != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// mayImport turns lines of arrows into the set of packages that each package
// may import, the arrows of those included.
func mayImport(lines string) map[string]map[string]bool {
	may := map[string]map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		names := strings.Split(strings.TrimSpace(line), " ← ")
		for i, name := range names {
			if may[name] == nil {
				may[name] = map[string]bool{}
			}
			for _, left := range names[:i] {
				may[name][left] = true
			}
		}
	}
	for grew := true; grew; {
		grew = false
		for _, set := range may {
			for left := range set {
				for further := range may[left] {
					grew = grew || !set[further]
					set[further] = true
				}
			}
		}
	}
	return may
}
