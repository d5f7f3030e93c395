package conformance_test

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/conformance"
	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// registering runs the whole kit for ledgers against the ledger of this repository.
func registering(t *testing.T, change func(*stage.Stage)) *conformance.Report {
	t.Helper()
	s, err := stage.New(nil)
	must(t, err)
	defer s.Close()
	if change != nil {
		change(s)
	}
	l := &conformance.Ledger{URL: s.URL, Vectors: some(t, "envelope"), Limit: 20 * time.Second, Authority: s.Signer(stage.Authority), Root: s.Root, Graphs: 200}
	r, err := l.Run(t.Context())
	must(t, err)
	return r
}

// TestLedgerState: the ledger of this repository admits and refuses as the draft says.
func TestLedgerState(t *testing.T) {
	budget.Unraced(t, "one question after the other; TestLedgerStateFaults has the goroutines")
	t.Parallel()
	r := registering(t, nil)
	if r.Failed > 0 || r.Passed < 160 {
		t.Error(r.Text())
	}
	inTheDraft(t, r)
}

// ledgerFault is a mistake of a ledger, and a statement that a failure names.
type ledgerFault struct {
	statement string
	change    func(s *stage.Stage)
}

// registers has a ledger register what it refuses by a problem.
func registers(problem entry.Problem, which func(*entry.Entry) bool) func(*stage.Stage) {
	return func(s *stage.Stage) {
		s.Judge(func(e *entry.Entry, refused error) error {
			if refusal, is := errors.AsType[*entry.Refusal](refused); is && refusal.Problem == problem && (which == nil || which(e)) {
				return nil
			}
			return refused
		})
	}
}

// says has a ledger answer one problem for another.
func says(problem, other entry.Problem) func(*stage.Stage) {
	return func(s *stage.Stage) {
		s.Judge(func(_ *entry.Entry, refused error) error {
			if refusal, is := errors.AsType[*entry.Refusal](refused); is && refusal.Problem == problem {
				changed := *refusal
				changed.Problem = other
				return &changed
			}
			return refused
		})
	}
}

// answers has a ledger change its answers to submissions.
func answers(change func(a *stage.Answer)) func(*stage.Stage) {
	return func(s *stage.Stage) {
		s.Script(func(w http.ResponseWriter, r *http.Request, honest http.Handler) bool {
			if r.Method != http.MethodPost {
				return false
			}
			a := stage.Honest(honest, r)
			change(a)
			a.Send(w)
			return true
		})
	}
}

func kind(k entry.Kind) func(*entry.Entry) bool {
	return func(e *entry.Entry) bool { return e.Kind == k }
}

var ledgerFaults = map[string]ledgerFault{
	"registers another ledger's entries":  {"REG-3a", registers(entry.WrongAudience, nil)},
	"checks no signature":                 {"ENV-8", registers(entry.BadSignature, nil)},
	"takes any key":                       {"ENV-3", registers(entry.UnknownIssuer, nil)},
	"takes any role":                      {"REG-0", registers(entry.UnauthorizedRole, kind(entry.KindAgent))},
	"takes any time":                      {"REG-0", registers(entry.Stale, nil)},
	"takes a key twice":                   {"REG-4a", registers(entry.StateConflict, kind(entry.KindAgent))},
	"takes parents that are not there":    {"REG-10", registers(entry.UnknownSubject, kind(entry.KindExecution))},
	"takes executions that go back":       {"EXE-1", registers(entry.StateConflict, kind(entry.KindExecution))},
	"takes any checkpoint":                {"CHK-1a", registers(entry.StateConflict, kind(entry.KindCheckpoint))},
	"hears anybody":                       {"SIG-3", registers(entry.NoStanding, kind(entry.KindSignal))},
	"compares no set":                     {"SCO-5b", registers(entry.ScopeMismatch, kind(entry.KindDecision))},
	"knows no limits":                     {"INC-7b", registers(entry.ScopeExceedsPolicy, kind(entry.KindDecision))},
	"fences nothing":                      {"INC-4a", registers(entry.FencedDependency, nil)},
	"counts no epoch":                     {"INC-7d", registers(entry.StaleEpoch, nil)},
	"takes any policy":                    {"INC-3", registers(entry.PolicySuperseded, kind(entry.KindDecision))},
	"takes any approval":                  {"INC-5", registers(entry.NoStanding, kind(entry.KindApproval))},
	"takes any outcome":                   {"INC-6c", registers(entry.StateConflict, kind(entry.KindOutcome))},
	"takes any record":                    {"REC-2", registers(entry.StateConflict, kind(entry.KindRecord))},
	"counts no quota":                     {"REG-7a", registers(entry.RateLimited, nil)},
	"says state-conflict for a fence":     {"INC-4a", says(entry.FencedDependency, entry.StateConflict)},
	"says malformed for a missing parent": {"EXE-5", says(entry.UnknownSubject, entry.Malformed)},
	"answers 200 for 201":                 {"HTTP-1", answers(func(a *stage.Answer) { a.Status = min(a.Status, 200) })},
	"gives receipts that do not hold": {"LOG-3", answers(func(a *stage.Answer) {
		a.Body = bytes.Replace(a.Body, []byte(`"proof":["`), []byte(`"proof":["AAAA`), 1)
	})},
	"answers from any size": {"HTTP-2", func(s *stage.Stage) {
		s.Script(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			r.Header.Del("Min-Log-Size")
			return false
		})
	}},
	"answers no problem details": {"ERR-1", answers(func(a *stage.Answer) {
		if a.Status >= 400 {
			a.Body = []byte("no")
		}
	})},
	"says nothing of the incident that waits": {"ERR-2", answers(func(a *stage.Answer) {
		a.Body = bytes.Replace(a.Body, []byte(`"waits_for"`), []byte(`"waited_for"`), 1)
	})},
}

// TestLedgerStateFaultsChaos: each of the mistakes of a ledger is caught, by a case that names the
// statement.
func TestLedgerStateFaultsChaos(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(ledgerFaults))
	for _, name := range names[:budget.Budget{Short: 1, Usual: 2, Chaos: len(names)}.Now()] {
		t.Run(name, func(t *testing.T) {
			f := ledgerFaults[name]
			s, err := stage.New(nil)
			must(t, err)
			defer s.Close()
			l := &conformance.Ledger{URL: s.URL, Vectors: some(t, "hash"), Limit: 20 * time.Second, Authority: s.Signer(stage.Authority), Root: s.Root, Graphs: 20}
			f.change(s)
			r, err := l.Run(t.Context())
			if err != nil && (f.statement == "HTTP-1" || f.statement == "LOG-3") {
				return // such a ledger does not even take the principals of the kit, and the error says why
			}
			must(t, err)
			caught := slices.ContainsFunc(r.Results, func(r conformance.Result) bool {
				return r.Outcome == conformance.Failed && slices.Contains(r.Statements, f.statement) && r.Sent != "" && !strings.HasPrefix(r.Got, "not played")
			})
			if !caught {
				t.Errorf("no failure names %s:\n%.3000s", f.statement, r.Text())
			}
		})
	}
}
