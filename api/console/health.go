package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// healthPage is how the log and its people stand.
type healthPage struct {
	Policy    entry.LogRef
	Witnesses string // policy of witnesses; empty: none is asked
	Keys      []verify.KeyInfo
	Revoked   int
	Approvers int // principals with a key that counts
	Operators int
	NotFenced int // open incidents whose members others may build on
	Unseen    int // incidents that nobody answered and nobody has acknowledged
	Tasks     []stateCount
	Retries   int64
	Age       int64 // of the newest entry, milliseconds
	Derived   bool
	Metrics   string // where the ledger tells them
	Findings  []foundRow
}

// foundRow is what one check of this machine or of the ledger found.
type foundRow struct {
	words.Finding
	Look look
}

// findingLooks are how the states of findings are shown.
var findingLooks = map[string]look{words.FindingOK: {"✓", "ok", "done"}, words.FindingWarn: {"!", "warn", "waits"}, words.FindingFail: {"✕", "fail", "stays"}}

// examineTime bounds the time that the page waits for the checks.
const examineTime = 5 * time.Second

// examine makes the checks.
func (b *healthPage) examine(ctx context.Context, k *Console) {
	if k.cfg.Examine == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, examineTime)
	defer stop()
	k.cfg.Examine(ctx, func(f words.Finding) { b.Findings = append(b.Findings, foundRow{f, findingLooks[f.State]}) })
}

// health is GET /health.
func (k *Console) health(q *http.Request) (*page, error) {
	body := &healthPage{Derived: k.cfg.Derived, Metrics: k.cfg.Metrics}
	body.examine(q.Context(), k)
	p := &page{name: "health", Title: "Health", Command: "arl doctor", Section: "Health", Body: body, About: []string{subject(entry.SubjectLog, "")}}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		body.Age = max(0, at.Now-at.At)
		policy, ref := state.Chain().Policy()
		body.Policy = ref
		if policy != nil {
			body.Witnesses = strings.TrimSpace(policy.Witnesses)
		}
		agents := state.Chain().Agents()
		for i := range agents {
			body.count(&agents[i])
		}
		census := state.Census(at.Now)
		body.NotFenced, body.Unseen = census.NotFenced, census.Unacknowledged
		counts := state.TaskCounts()
		for _, name := range entry.TaskStates() {
			if n := counts[name]; n > 0 {
				body.Tasks = append(body.Tasks, stateCount{string(name), int(n)})
			}
		}
		body.Retries = state.TaskRetries()
	})
	return p, nil
}

// count takes in the keys of a principal.
func (b *healthPage) count(a *verify.AgentInfo) {
	if slices.Contains(a.Roles, entry.RoleApprover) {
		b.Approvers++
	}
	if slices.Contains(a.Roles, entry.RoleOperator) {
		b.Operators++
	}
	privileged := verify.AuthorityOnly(a.Roles)
	for i := range a.Keys {
		if a.Keys[i].Revoked != 0 {
			b.Revoked++
		} else if privileged {
			b.Keys = append(b.Keys, a.Keys[i])
		}
	}
}
