package api

import (
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Limits of what recoveries are asked for.
const (
	// MaxCase is the size of one case in bytes: a request, or a line of a batch.
	MaxCase = 1 << 20
	// MaxRecoveryLines is the number of cases in one batch, MaxRecoveryBytes its
	// size.
	MaxRecoveryLines = 100_000
	MaxRecoveryBytes = 256 << 20
)

// Rules says which rules decided.
type Rules struct {
	Policy entry.LogRef `json:"policy" doc:"the policy in force"`
	Digest entry.Digest `json:"digest" doc:"of its rules of recovery in canonical form; those built in where it has none"`
}

// Recovery is the answer of POST /v1/recoveries: what the rules in force decide
// about one case, from what it records.
type Recovery struct {
	Rules Rules          `json:"rules"`
	Trace jsontext.Value `json:"trace" doc:"as arl recover writes it; its bytes are canonical"`
}

// RecoveryLine is a line of the answer to POST /v1/recoveries/batch: about one
// line of the request, or, last, about all of them. An answer without the last
// line is not whole.
type RecoveryLine struct {
	Line    uint64         `json:"line,omitzero" doc:"of the request, from 1"`
	Trace   jsontext.Value `json:"trace,omitzero" doc:"what was decided; its bytes are canonical"`
	Problem *Problem       `json:"problem,omitempty" doc:"why the line could not be used; the others do not depend on it"`
	End     *RecoveryEnd   `json:"end,omitempty"`
}

// RecoveryEnd sums up a batch.
type RecoveryEnd struct {
	Rules         Rules       `json:"rules" doc:"that decided all of it"`
	Cases         uint64      `json:"cases"`
	AutoRecovered uint64      `json:"auto_recovered"`
	Escalated     uint64      `json:"escalated"`
	NoFailure     uint64      `json:"no_failure"`
	Refused       uint64      `json:"refused" doc:"lines that could not be used"`
	RunRoot       merkle.Hash `json:"run_root" doc:"RFC 6962 root over the traces, that of arl recover on the same cases"`
	Partial       string      `json:"partial,omitempty" doc:"why the rest of the request was not looked at" enum:"too-large,interrupted"`
}
