package worker

import (
	"crypto/hmac"
	"crypto/sha256"
	"regexp"
	"sync"

	"recoveryledger/ledger/entry"
)

// Progress is the progress of one attempt, in numbers and one word. A snapshot may say no more
// about the work.
type Progress struct {
	Exec         entry.Ref `json:"exec"` // the execution under way
	Turns        int64     `json:"turns,omitzero"`
	MaxTurns     int64     `json:"max_turns,omitzero"`
	CostMicroUSD int64     `json:"cost_micro_usd,omitzero"` // spent by the attempt
	Tokens       int64     `json:"tokens,omitzero"`         // read and written by it; in no snapshot
	Messages     int64     `json:"messages,omitzero"`       // their number
	Status       string    `json:"status,omitzero"`         // a word
}

// Snapshot returns what a log may keep of a failure (TSK-3): counts, times, class, code, and
// a digest of the context keyed with the agent's secret. The agent can prove the context
// later, and no reader can guess it. No free text of the agent gets in: a status that is no
// word becomes "unknown", and a negative count becomes 0.
func Snapshot(e *Ending, agent entry.Principal, p *Progress, secret, context []byte) *entry.Snapshot {
	mac := hmac.New(sha256.New, secret)
	mac.Write(context)
	status := p.Status
	if !statusWord().MatchString(status) {
		status = "unknown"
	}
	return &entry.Snapshot{
		Exec: p.Exec, Agent: agent, Turns: count(p.Turns), MaxTurns: count(p.MaxTurns), CostMicroUSD: count(p.CostMicroUSD), Messages: count(p.Messages),
		Status: status, StartedAt: max(e.Started.UnixMilli(), 1), TakenAt: max(e.Ended.UnixMilli(), 1),
		Class: e.Failure.Class, Code: e.Failure.Code, ContextDigest: entry.KeyedDigestFrom(mac.Sum(nil)),
	}
}

// statusWord matches a status: a short word of lower-case letters, which cannot be a key.
var statusWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_]{1,32}$`) })

func count(n int64) int64 { return min(max(n, 0), entry.MaxInteger) }
