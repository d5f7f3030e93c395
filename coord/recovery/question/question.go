// Package question asks people about cases that an engine gave up. The attempt entry of such a case
// says that the case escalated, and nobody waits for attempt entries. So the engine creates a task
// without a type: it waits for an operator (protocol.md, TSK-4), names case and attempt, and says
// what is to be done.
//
// The id of the task follows from the engine, the agent, the case, and the failure that was given
// up. The same case again of one engine is the same question, and an answer stays an answer.
// Another engine asks again: the id of a case is its issuer's own.
package question

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Workflow is the workflow of the tasks.
const Workflow entry.WorkflowID = "escalations"

// Max bounds the questions about single cases of one run or request. People cannot answer more, and
// the attempt entries have all cases. One question more is about all others (see [Rest]).
const Max = 1000

// Rest makes the question about the first case beyond [Max] one about all n such cases, so that no
// case is missing in the list that people look at.
func Rest(q *entry.Task, n int64) {
	if n > 1 {
		q.Reason = cut(fmt.Sprintf("%d cases escalated beyond the %d that are asked about one by one; read their attempts (arl entry list --kind attempt). The first: %s", n, Max, q.Reason))
	}
}

// asks reports whether a case of an attempt entry asks people: it escalated, and something was done
// about it.
func asks(a *entry.Attempt, c *entry.AttemptCase) bool {
	return c.Status == entry.StatusEscalated && a.Arm != entry.ArmShadow
}

// Of returns the task that asks people about a case of an attempt entry; nil if the case asks
// nothing. The header of the attempt is that of the engine's entry. The header of the task has no
// jti and no iat. rules are those that decided; nil: their advice to people is not known. lacks
// says why the log has no entry of what was decided (package enact); empty: there is none to have.
func Of(a *entry.Attempt, c *entry.AttemptCase, rules *recovery.Policy, lacks string) *entry.Task {
	if !asks(a, c) {
		return nil
	}
	about := &entry.TaskCase{Case: c.Case, Attempt: a.JTI, Decided: decided(c.Rungs)}
	if a.Agent != a.Iss {
		about.Agent = a.Agent
	}
	last := entry.Rung{Class: entry.ClassUnknown, Code: entry.ClassUnknown, Reason: "no rung"}
	if n := len(c.Rungs); n > 0 {
		last = c.Rungs[n-1]
	}
	return &entry.Task{
		Header: entry.Header{V: 1, Iss: a.Iss, Aud: a.Aud, Wid: Workflow},
		Task:   entry.NewRef(a.Iss, taskID(about.Agent, c.Case, &last)), Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated,
		Reason: reason(about, &last, rules, lacks), About: about,
	}
}

// taskID is the local id of the task about a case: the id of the case as far as there is room, and
// a digest of the agent, the case, and the failure that was given up.
func taskID(agent entry.Principal, id string, last *entry.Rung) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(agent), id, last.Step, last.Class, last.Code}, "|"))) // no name has a bar
	digest := "-" + hex.EncodeToString(sum[:8])
	return id[:min(len(id), entry.MaxName-len(digest))] + digest
}

// decided returns the strategies at the end of a ladder that nobody carried out yet.
func decided(rungs []entry.Rung) []string {
	var list []string
	for i := len(rungs) - 1; i >= 0 && rungs[i].Result == string(recovery.ResultDecided); i-- {
		list = append(list, rungs[i].Strategy)
	}
	if len(list) == 0 {
		return []string{string(recovery.Escalate)}
	}
	slices.Reverse(list)
	return list
}

// todo is what people do about strategies that the engine decides and does not carry out.
var todo = map[recovery.Strategy]string{
	recovery.Rollback:   "signal the failure, so that what it led to is undone (arl signal submit)",
	recovery.Quarantine: "stop the agent",
	recovery.Abort:      "stop what still runs for the case",
}

// reason is the question, as short as an entry wants it.
func reason(about *entry.TaskCase, last *entry.Rung, rules *recovery.Policy, lacks string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", strings.Join(about.Decided, ", "), last.Reason)
	if last.Rule != "" {
		fmt.Fprintf(&text, " (%s)", last.Rule)
	}
	for _, s := range about.Decided {
		if what := todo[recovery.Strategy(s)]; what != "" {
			text.WriteString(": " + what)
		}
	}
	if lacks != "" {
		fmt.Fprintf(&text, " (%s)", lacks)
	}
	if rules != nil {
		if advice := rules.Remediation(last.Class, last.Code); advice != "" {
			text.WriteString(": " + advice)
		}
	}
	fmt.Fprintf(&text, "; case %s", about.Case)
	if about.Agent != "" {
		fmt.Fprintf(&text, " of %s", about.Agent)
	}
	if last.Step != "" {
		fmt.Fprintf(&text, ", step %s", last.Step)
	}
	fmt.Fprintf(&text, ": %s.%s", last.Class, last.Code)
	return cut(text.String())
}

// cut returns the longest prefix of whole characters that an entry takes.
func cut(text string) string {
	if len(text) <= entry.MaxText {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:entry.MaxText-len(mark)], "") + mark
}
