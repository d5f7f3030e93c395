package node

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// hasty is the log of a coordinator that is wrong: it authorizes what it has to contain.
type hasty struct {
	coordinator.Log
	n *Node
	// between, if not nil, registers an entry of somebody else before each decision.
	between func() error
}

// Submit implements [coordinator.Log].
func (h hasty) Submit(ctx context.Context, entries ...*entry.Entry) (int, error) {
	for i, e := range entries {
		d, ok := e.Body.(*entry.Decision)
		if !ok {
			continue
		}
		if h.between != nil {
			if err := h.between(); err != nil {
				return 0, err
			}
		}
		var wrong *entry.Decision
		var err error
		h.n.Replica.Read(func(s *coord.State) {
			wrong, err = s.Draft(coord.Order{Incident: d.Incident, Act: entry.ActAuthorize, Reason: "hasty"}, h.Now())
		})
		if err != nil {
			return 0, err
		}
		wrong.Header = d.Header
		if entries[i], err = signed(wrong, h.n.signer); err != nil {
			return 0, err
		}
	}
	return h.Log.Submit(ctx, entries...)
}

func signed(body entry.Body, signer *keys.Signer) (*entry.Entry, error) {
	e, err := entry.New(body)
	if err != nil {
		return nil, err
	}
	return e, signer.Sign(e)
}

// TestWrongCoordinatorIsCounted: the ledger refuses what its own coordinator may not decide alone.
// The counter of the invariant says so from the second refusal on. The first one proves nothing,
// since an entry that the coordinator had not read may be its reason.
func TestWrongCoordinatorIsCounted(t *testing.T) {
	t.Run("quiet", func(t *testing.T) { wrongCoordinator(t, false) })
	t.Run("busy", func(t *testing.T) { wrongCoordinator(t, true) }) // others let the log grow all the time
}

func wrongCoordinator(t *testing.T, busy bool) {
	t.Helper()
	home := t.TempDir()
	n, err := Open(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "data"), Create: true, Decides: true, Metrics: metrics.New(),
		Machine: &trust.Store{Home: func() (string, error) { return home, nil }}, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := keys.Generate(filepath.Join(home, "a.key"), keys.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Run(t.Context(), false, func(ctx context.Context) error {
		profile := &trust.Profile{URL: "http://127.0.0.1:1"}
		if err := n.Introduce(ctx, profile, func() (*entry.Policy, error) { return entry.Genesis(""), nil }); err != nil {
			return err
		}
		authority, err := keys.Load(profile.Keys[0].Path, nil)
		if err != nil {
			return err
		}
		if err := payWrongly(ctx, n, authority, agent); err != nil {
			return err
		}
		k, ended, stop := n.coordinator(), errors.New("refused twice"), context.CancelCauseFunc(nil)
		ctx, stop = context.WithCancelCause(ctx)
		tell, told := k.Refused, 0
		wrong := hasty{Log: k.Log, n: n}
		if busy {
			wrong.between = func() error { return goesOn(ctx, n, agent) }
		}
		k.Log = wrong
		k.Refused = func(body entry.Body, refusal *entry.Refusal) {
			tell(body, refusal)
			told++
			if counted := beyondLimits(n.metrics); refusal.Problem != entry.ScopeExceedsPolicy || counted != (told > 1) {
				t.Errorf("refusal %d, %v: counted: %t", told, refusal, counted)
			}
			if told == 2 {
				stop(ended)
			}
		}
		if err := k.Run(ctx); !errors.Is(context.Cause(ctx), ended) {
			return errors.Join(errors.New("the coordinator ended"), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// payWrongly has an agent pay, which nobody can take back, and say that the payment was wrong.
func payWrongly(ctx context.Context, n *Node, authority, agent *keys.Signer) error {
	pay := func(progress entry.Progress) *entry.Execution {
		return &entry.Execution{Header: n.headerIn("a", "w"), Exec: "pay", Parents: []entry.Parent{}, Effect: entry.EffectIrrevocable,
			Progress: progress, IdempotencyKey: entry.DigestOf([]byte("invoice"))}
	}
	enrol := &entry.Agent{Header: n.Header(Authority), Principal: "a", Op: entry.Enrol, Key: agent.Public(), Roles: []entry.Role{entry.RoleAgent},
		Domain: "d", Span: entry.SpanWorkflow}
	signal := &entry.Signal{Header: n.headerIn("a", "w"), Subject: "a#pay", Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnknown, ObservedAt: n.Log.Now()}
	for _, one := range []struct {
		body entry.Body
		by   *keys.Signer
	}{{enrol, authority}, {pay(entry.Started), agent}, {pay(entry.Confirmed), agent}, {signal, agent}} {
		if err := register(ctx, n, one.body, one.by); err != nil {
			return err
		}
	}
	return nil
}

// goesOn registers an execution of an agent that nothing depends on.
func goesOn(ctx context.Context, n *Node, agent *keys.Signer) error {
	h := n.headerIn("a", "other")
	return register(ctx, n, &entry.Execution{Header: h, Exec: h.JTI, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}, agent)
}

func register(ctx context.Context, n *Node, body entry.Body, by *keys.Signer) error {
	e, err := signed(body, by)
	if err == nil {
		err = n.Register(ctx, []*entry.Entry{e})
	}
	return err
}

func (n *Node) headerIn(by entry.Principal, wid entry.WorkflowID) entry.Header {
	h := n.Header(by)
	h.Wid = wid
	return h
}

// beyondLimits reports whether a decision beyond the limits was counted, and at most one.
func beyondLimits(m *metrics.Metrics) bool {
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return strings.Contains(answer.Body.String(), `arl_invariant_violations_total{invariant="beyond_limits"} 1`+"\n")
}
