package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// site is a ledger in a directory, with real keys, and the machine that it lies on.
type site struct {
	t       testing.TB
	machine *access.Machine
	data    string
	root    verify.Root
}

func newSite(tb testing.TB) *site {
	tb.Helper()
	home := tb.TempDir()
	s := &site{t: tb, data: filepath.Join(tb.TempDir(), "data"), machine: &access.Machine{
		Trust: &trust.Store{Home: func() (string, error) { return home, nil }}, Fatal: func(err error) { tb.Error(err) }}}
	n, err := node.Open(tb.Context(), node.Options{Dir: s.data, Create: true, Decides: true, Machine: s.machine.Trust, Fatal: s.machine.Fatal})
	s.must(err)
	p := new(trust.Profile)
	_, err = n.Run(tb.Context(), false, func(ctx context.Context) error {
		return n.Introduce(ctx, p, func() (*entry.Policy, error) { return entry.Genesis(""), nil })
	})
	s.must(err)
	s.root = trust.WithCosigner(p.Root)
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// use opens the ledger with an engine that is enrolled in it.
func (s *site) use(do func(r *access.Recording, engine *access.Signer)) {
	s.t.Helper()
	s.must(s.machine.WithRegistry(s.t.Context(), &access.Where{Data: s.data}, func(r *access.Recording) error {
		signer, err := s.machine.EngineSigner(s.t.Context(), r, "")
		s.must(err)
		do(r, signer)
		return nil
	}))
}

// TestRecordedRun records a run, exports its proofs and verifies its directory, as it
// is and with each of its files changed.
func TestRecordedRun(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(t.TempDir(), "run")
	out, err := engine.CreateDir(dir)
	s.must(err)
	scenario, err := filepath.Abs("../../../testdata/tool_chain_failures.ndjson")
	s.must(err)
	policy := recovery.Default()
	run := &engine.Run{Batch: engine.Batch{Config: engine.Config{Policy: policy, Runtime: engine.Recorded{}}, Workers: 2, Neighbours: engine.Neighbours(policy)},
		Scenario: scenario, Mode: engine.ModeRecorded, ID: uuid.NewString(), Dir: out, Progress: func(int64, int64) {}}
	s.use(func(reg *access.Recording, signer *access.Signer) {
		r := &record.Recorder{Ledger: reg, Root: s.root, Sign: signer.Sign, Issuer: signer.Principal, Run: run.ID}
		run.Recorder = r
		if r.Ended() {
			t.Error("the run ended before it began")
		}
		_, err := run.Do(t.Context())
		s.must(err)
		if !r.Ended() {
			t.Error("the run did not end in the log")
		}
		s.must(r.Export(t.Context(), dir))
	})
	s.must(out.Close())

	verified, err := record.Verify(s.root, dir)
	s.must(err)
	if verified.Run != run.ID || verified.Issuer != "engine" || verified.Cases == 0 || verified.Entries <= 2 || verified.Entries >= verified.Cases+2 || len(verified.Missing) > 0 {
		t.Errorf("%+v", verified)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	s.must(err)
	refused := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		s.must(err)
		changed := bytes.Replace(content, []byte(`"escalated"`), []byte(`"no_failure"`), 1)
		if bytes.Equal(changed, content) {
			continue
		}
		s.must(os.WriteFile(file, changed, 0o600))
		if _, err := record.Verify(s.root, dir); err == nil {
			t.Errorf("%s was changed, and verifies", file)
		}
		s.must(os.WriteFile(file, content, 0o600))
		refused++
	}
	if refused == 0 {
		t.Error("nothing was changed: no file says that a case escalated")
	}
}

// TestResumedRun shows that a run which goes on registers nothing twice, and that
// another result for a case is refused.
func TestResumedRun(t *testing.T) {
	s := newSite(t)
	id := uuid.NewString()
	attempt := func(status entry.CaseStatus) *entry.Attempt {
		return &entry.Attempt{Run: id, AttemptCase: entry.AttemptCase{Case: "c1", Status: status, TraceDigest: entry.DigestOf([]byte(status)), Rungs: []entry.Rung{}}}
	}
	open := func() *entry.Run {
		zero := entry.DigestOf("")
		return &entry.Run{Run: id, Op: "open", ConfigDigest: zero, ScenarioDigest: zero, Engine: "test"}
	}
	s.use(func(reg *access.Recording, signer *access.Signer) {
		recorder := func() *record.Recorder {
			r := &record.Recorder{Ledger: reg, Root: s.root, Sign: signer.Sign, Issuer: signer.Principal, Run: id}
			s.must(r.Resume(t.Context()))
			return r
		}
		size := func() (n int) {
			for _, kind := range []entry.Kind{entry.KindRun, entry.KindAttempt} {
				for _, err := range reg.Receipts(t.Context(), entry.ByKind, string(kind)) {
					s.must(err)
					n++
				}
			}
			return n
		}
		for range 2 {
			r := recorder()
			s.must(r.Begin(t.Context(), open()))
			s.must(r.Attempt(t.Context(), attempt("escalated")))
			s.must(r.Flush(t.Context()))
			if n := size(); n != 2 {
				t.Fatalf("the log has %d entries of the run, want 2", n)
			}
		}
		if err := recorder().Attempt(t.Context(), attempt("no_failure")); !errors.Is(err, record.ErrOther) {
			t.Errorf("another result: %v", err)
		}
	})
}

// recorded is a file of two runs of two agents.
const recorded = `{"case":"p-1","seq":0,"model":"small","class":"api_error","cost_usd":0.5,"latency_ms":10}
{"case":"p-1","seq":1,"model":"large","class":"ok","cost_usd":0.5,"latency_ms":10}
`

// imports imports files with one directory of agents' keys.
type imports struct {
	*site
	reg       *access.Recording
	dir       string
	authority *keys.Signer
	batches   int // before the connection is lost; 0: it is not
	counted   string
}

func (s *site) imports(reg *access.Recording, dir string) *imports {
	authority, err := keys.Load(filepath.Join(must(s.machine.Trust.Path("keys", trust.FileName(s.root.Origin))), "operator.key"), nil)
	s.must(err)
	return &imports{site: s, reg: reg, dir: dir, authority: authority}
}

func (m *imports) do(ctx context.Context, file, secret string) (record.ImportReport, error) {
	chain, err := m.reg.Chain(ctx)
	m.must(err)
	sent := 0
	im := &record.Import{Ledger: m.reg, Origin: m.root.Origin, Chain: chain, Sign: m.authority.Sign, Enroller: node.Operator, Domain: "import",
		Secret: []byte(secret), SecretFile: m.dir, Skipped: func(err error) { m.must(err) }, Counted: func(_ string, counts *importer.Counts) { m.counted = counts.String() }, Progress: func(int64) {},
		Submit: func(ctx context.Context, entries []*entry.Entry) ([]verify.Receipt, error) {
			if sent++; m.batches > 0 && sent > m.batches {
				return nil, context.Canceled
			}
			return make([]verify.Receipt, len(entries)), m.reg.Register(ctx, entries)
		},
		Key: func(agent entry.Principal) (*keys.Signer, string, error) {
			path := filepath.Join(m.dir, trust.FileName(string(agent))+".key")
			if key, err := keys.Load(path, nil); err == nil {
				return key, path, nil
			}
			key, err := keys.Generate(path, keys.Ed25519, nil)
			return key, path, err
		}}
	if err = im.File(ctx, file, importer.Attempts); err == nil {
		err = im.Flush(ctx)
	}
	report, _ := im.Done()
	return report, err
}

// TestImport registers the runs of a file, once however often it is imported. Other
// secrets and keys that no longer count are refused.
func TestImport(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "runs.ndjson")
	s.must(os.WriteFile(file, []byte(recorded), 0o600))
	dir := t.TempDir()
	s.use(func(reg *access.Recording, _ *access.Signer) {
		m := s.imports(reg, dir)
		first, err := m.do(t.Context(), file, "one")
		s.must(err)
		if first.Files != 1 || first.Cases == 0 || first.Agents == 0 || first.Registered <= first.Agents || first.Known != 0 {
			t.Errorf("the first time: %+v", first)
		}
		again, err := m.do(t.Context(), file, "one")
		s.must(err)
		if again.Registered != 0 || again.Agents != 0 || again.Known != first.Registered-first.Agents {
			t.Errorf("again: %+v, after %+v", again, first)
		}
		if _, err := m.do(t.Context(), file, "two"); !errors.Is(err, record.ErrOther) || !strings.Contains(fmt.Sprint(err), dir) {
			t.Errorf("with another secret: %v", err)
		}
	})
}

// TestAnInterruptedImportGoesOn loses the connection in the middle of a file. The next import
// passes over what is registered, also where a batch ended in the middle of a case, and registers
// the rest.
func TestAnInterruptedImportGoesOn(t *testing.T) {
	s := newSite(t)
	var runs strings.Builder
	const cases = 400
	for i := range cases {
		runs.WriteString(strings.ReplaceAll(recorded, "p-1", "p-"+strconv.Itoa(i)))
	}
	file := filepath.Join(t.TempDir(), "runs.ndjson")
	s.must(os.WriteFile(file, []byte(runs.String()), 0o600))
	s.use(func(reg *access.Recording, _ *access.Signer) {
		m := s.imports(reg, t.TempDir())
		m.batches = 1
		cut, err := m.do(t.Context(), file, "one")
		if !errors.Is(err, context.Canceled) || cut.Registered == 0 {
			t.Fatalf("%+v, %v", cut, err)
		}
		if taken := 2 * cut.Cases; cut.Cases == cases || m.counted != fmt.Sprintf("records taken: %d of %[1]d", taken) {
			t.Errorf("the records so far: %s, of %d cases", m.counted, cut.Cases)
		}
		m.batches = 0
		rest, err := m.do(t.Context(), file, "one")
		s.must(err)
		if rest.Known != cut.Registered-cut.Agents || rest.Registered == 0 || rest.Agents != 0 {
			t.Errorf("the rest: %+v, after %+v", rest, cut)
		}
		again, err := m.do(t.Context(), file, "one")
		s.must(err)
		if again.Registered != 0 || again.Known != rest.Known+rest.Registered {
			t.Errorf("again: %+v, after %+v", again, rest)
		}
	})
}

func must(path string, err error) string {
	if err != nil {
		panic(err)
	}
	return path
}
