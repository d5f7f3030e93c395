package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	cryptorand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"recoveryledger/api/server"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/coord"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// keeper is a running ledger whose keys are at hand, and the command line of a
// machine that follows it, in this process.
type keeper struct {
	*hostile
	commandLine
	web *httptest.Server

	mu      sync.Mutex
	fetched []string // paths of requests
	lacks   string   // path that is not found; empty: none
	ctrlC   func()   // what happens, too, when that path is asked for; nil: nothing
}

// foldMagic begins the file of a kept fold.
const foldMagic = "arl fold 1\n"

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	l := startCommandLine(t)
	l.stop()
	k := &keeper{hostile: corrupt(t, l)}
	k.commandLine = commandLine{t: t, home: filepath.Join(t.TempDir(), "home"), data: k.node.Dir}
	k.must(copyTree(k.home, l.home))
	k.serve()
	return k
}

// twin is another copy of the same ledger as it is now, and the same machine.
func (k *keeper) twin() *keeper {
	k.hostile.t.Helper()
	k.end()
	other := &keeper{hostile: corrupt(k.hostile.t, &k.commandLine)}
	other.commandLine = commandLine{t: k.hostile.t, home: k.home, data: other.node.Dir}
	*k.hostile = *corrupt(k.hostile.t, &commandLine{home: k.home, data: k.data})
	k.data = k.node.Dir
	k.serve()
	other.serve()
	return other
}

func (k *keeper) serve() {
	s, err := server.New(&server.Config{Origin: k.node.Origin, VerifierKeys: k.node.Keys[0].VerifierKeys[:], Log: k.log, Replica: k.node.Replica})
	k.must(err)
	k.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.fetched = append(k.fetched, r.URL.Path)
		lacks, ctrlC := k.lacks, k.ctrlC
		k.mu.Unlock()
		if lacks != "" && strings.HasPrefix(r.URL.Path, lacks) {
			if ctrlC != nil {
				ctrlC()
				<-r.Context().Done() // the command leaves without the answer
			}
			http.NotFound(w, r)
			return
		}
		s.Handler().ServeHTTP(w, r)
	}))
}

// end stops the ledger.
func (k *keeper) end() {
	k.web.Close()
	k.hostile.stop()
}

// run runs a command in this process.
func (k *keeper) run(args ...string) (out, told string, code int) {
	k.hostile.t.Helper()
	return k.runIn(k.hostile.t.Context(), args...)
}

func (k *keeper) runIn(ctx context.Context, args ...string) (out, told string, code int) {
	k.hostile.t.Helper()
	var stdout, stderr bytes.Buffer
	root := newApp(strings.NewReader(""), &stdout, &stderr).rootCommand()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(append(args, "--home", k.home, "--url", k.web.URL))
	err := root.ExecuteContext(ctx)
	if err != nil {
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), exit.Code(err)
}

// says runs a command that must succeed without a word on stderr.
func (k *keeper) says(args ...string) string {
	k.hostile.t.Helper()
	out, told, code := k.run(args...)
	if code != exit.OK || told != "" {
		k.hostile.t.Fatalf("arl %s: exit code %d\n%s", strings.Join(args, " "), code, told)
	}
	return out
}

// place is where the fold is kept.
func (k *keeper) place() audit.Place {
	k.hostile.t.Helper()
	var known struct{ Root verify.Root }
	k.readProfile(&known)
	a := newApp(nil, nil, nil)
	a.settings.home = k.home
	place, err := a.trust().Fold(trust.WithCosigner(known.Root))
	k.must(err)
	return place
}

// kept returns the file of the fold.
func (k *keeper) kept() []byte {
	k.hostile.t.Helper()
	content, err := os.ReadFile(k.place().Path)
	k.must(err)
	return content
}

// step registers an execution of agent a.
func (k *keeper) step(id string) {
	k.hostile.t.Helper()
	k.honest("a", &entry.Execution{Header: entry.Header{Wid: "w"}, Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed})
}

func (k *keeper) enrol(agent entry.Principal) {
	k.hostile.t.Helper()
	_, private, err := ed25519.GenerateKey(cryptorand.Reader)
	k.must(err)
	key, err := keys.NewSigner(private)
	k.must(err)
	k.keys[agent] = key
	k.honest(node.Operator, &entry.Agent{Principal: agent, Op: entry.Enrol, Key: key.Public(), Roles: []entry.Role{entry.RoleAgent},
		Domain: "d", Span: entry.SpanWorkflow})
}

// grow registers something that the rules allow, or nothing.
func (k *keeper) grow(r *rand.Rand, name string) {
	k.hostile.t.Helper()
	agent := entry.Principal([]string{"a", "b"}[r.IntN(2)])
	header := entry.Header{Wid: "w"}
	incidents := k.state.Incidents(0, 100, k.log.Now())
	v := incidents[r.IntN(len(incidents))]
	switch r.IntN(6) {
	case 0, 1:
		x := &entry.Execution{Header: header, Exec: name, Parents: []entry.Parent{}, Effect: entry.EffectReversible, Progress: entry.Started}
		x.IdempotencyKey = entry.Digest(fmt.Sprintf("sha256:%064x", r.Uint64()))
		if views, _ := k.state.Workflow("w", 0, 5, k.log.Now()); len(views) > 0 {
			x.Parents = append(x.Parents, entry.Parent{Exec: views[r.IntN(len(views))].Exec, Dep: entry.Hard})
		}
		k.try(agent, x)
	case 2:
		views, _ := k.state.Workflow("w", 0, 20, k.log.Now())
		subject := views[r.IntN(len(views))].Exec
		of, _ := subject.Split()
		k.try(of, &entry.Signal{Header: header, Subject: subject, Class: "tool", Code: "error", Standing: entry.StandingExecutor,
			Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: k.log.Now()})
	case 3, 4:
		for _, act := range []entry.Act{entry.ActAuthorize, entry.ActContain} {
			d, err := k.state.Draft(coord.Order{Incident: v.ID, Act: act, Reason: "because"}, k.log.Now())
			if err == nil && k.try(node.Coordinator, d) {
				return
			}
		}
		if record, err := k.state.DraftRecord(v.ID); err == nil {
			k.try(node.Coordinator, record)
		}
	case 5:
		plan, ok := k.state.PlanInForce(v.ID, k.log.Now())
		if !ok || v.Decision == nil {
			return
		}
		for _, m := range plan.Members {
			of, _ := m.Exec.Split()
			o := &entry.Outcome{Header: header, Incident: v.ID, Decision: v.Decision.Ref, Exec: m.Exec, Result: entry.ResultIrrevocable,
				ObservedAt: k.log.Now(), Residual: "it stays"}
			k.try(of, o)
		}
	}
}

// try registers an entry if the rules allow it.
func (k *keeper) try(iss entry.Principal, body entry.Body) bool {
	k.hostile.t.Helper()
	header, complete := entry.HeaderOf(body), k.node.Header(iss)
	complete.Wid = header.Wid
	*header = complete
	e, err := entry.New(body)
	k.must(err)
	k.must(k.keys[iss].Sign(e))
	if k.state.Admit(e, k.state.Size(), k.log.Now()) != nil {
		return false
	}
	k.honest(iss, body)
	return true
}
