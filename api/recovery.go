package api

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Limits of requests for recoveries.
const (
	// MaxCase is the size of one case in bytes: a request, or a line of a batch.
	MaxCase = 1 << 20
	// MaxQuestion is the size of a question to POST /v1/decide in bytes.
	MaxQuestion = 1 << 19
	// MaxRecoveryLines is the number of cases in one batch, MaxRecoveryBytes its
	// size.
	MaxRecoveryLines = 100_000
	MaxRecoveryBytes = 256 << 20
)

// Rules says which rules decided.
type Rules struct {
	Policy entry.LogRef `json:"policy" doc:"the policy in force"`
	Digest entry.Digest `json:"digest" doc:"digest of the policy's rules of recovery in canonical form, or of the built-in rules if the policy has none, or none that compile"`
}

// Recovery is the answer of POST /v1/recoveries: the decisions of the rules in force about one
// recorded case.
type Recovery struct {
	Rules    Rules          `json:"rules"`
	Trace    jsontext.Value `json:"trace" doc:"the trace in the form of arl recover; its bytes are canonical"`
	Recorded Recorded       `json:"recorded"`
}

// Recorded says which cases of a request stand in the log as attempts.
type Recorded struct {
	Cases   uint64 `json:"cases" doc:"cases whose attempts are in the log"`
	Entries uint64 `json:"entries" doc:"new entries"`
	Asked   uint64 `json:"asked,omitzero" doc:"cases that escalated and that people are asked about now, see GET /v1/escalations"`
	Enacted uint64 `json:"enacted,omitzero" doc:"cases whose rollback, quarantine or abort is an entry of the log: a failure signal, or the task's cancel"`
	Unasked uint64 `json:"unasked,omitzero" doc:"cases that escalated beyond the 1000 of a request, about all of which one question is asked: their attempts are in the log"`
	Known   uint64 `json:"known" doc:"entries that the log had: the same cases were recorded before"`
	Reason  string `json:"reason,omitempty" doc:"why nothing was recorded, or nothing more" enum:"not-wanted,no-engine-key,engine-not-enrolled,quota,refused"`
	Detail  string `json:"detail,omitempty" doc:"of refused: what the ledger said, or that the engine's key does not sign"`
}

// Reasons why a case is not recorded.
const (
	NotWanted   = "not-wanted"          // the request says record=false
	NoEngineKey = "no-engine-key"       // the server has no key to sign with
	NotEnrolled = "engine-not-enrolled" // its key is of no principal
	OverQuota   = "quota"               // of callers without a certificate
	Refused     = "refused"             // by the ledger
)

// RecoveryQuery asks for decisions.
type RecoveryQuery struct {
	Unrecorded bool // leave no entry
}

// Params implements [Query].
func (q *RecoveryQuery) Params() []Param {
	return []Param{{
		Name: "record", In: "query", Doc: "whether the attempts become entries of the log", Schema: `{"type":"boolean","default":true}`, Example: false,
		parse: func(text string) string {
			if q.Unrecorded = text == "false"; !q.Unrecorded && text != "true" {
				return fmt.Sprintf("%.40q is neither true nor false", text)
			}
			return ""
		},
		format: func() string {
			if q.Unrecorded {
				return "false"
			}
			return ""
		},
	}}
}

// RecoveryLine is a line of the answer to POST /v1/recoveries/batch: about one
// line of the request, or, last, about all of them. An answer without the last
// line is not whole.
type RecoveryLine struct {
	Line    uint64         `json:"line,omitzero" doc:"line of the request, from 1"`
	Trace   jsontext.Value `json:"trace,omitzero" doc:"the trace of the decisions; its bytes are canonical"`
	Problem *Problem       `json:"problem,omitempty" doc:"why the line could not be used; the other lines do not depend on this one"`
	End     *RecoveryEnd   `json:"end,omitempty"`
}

// RecoveryEnd sums up a batch.
type RecoveryEnd struct {
	Rules         Rules       `json:"rules" doc:"rules that decided every case"`
	Cases         uint64      `json:"cases"`
	AutoRecovered uint64      `json:"auto_recovered"`
	Escalated     uint64      `json:"escalated"`
	NoFailure     uint64      `json:"no_failure"`
	Refused       uint64      `json:"refused" doc:"number of lines that could not be used"`
	RunRoot       merkle.Hash `json:"run_root" doc:"RFC 6962 root over the traces; arl recover gives the same root for the same cases"`
	Recorded      Recorded    `json:"recorded"`
	Partial       string      `json:"partial,omitempty" doc:"why the rest of the request was not read" enum:"too-large,interrupted"`
}

// Decided is the answer of POST /v1/decide: one action about the failure with which a history ends.
type Decided struct {
	Rules    Rules          `json:"rules"`
	Decision jsontext.Value `json:"decision" doc:"action, rule and reason, in the form of package ask"`
}
