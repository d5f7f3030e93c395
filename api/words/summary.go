package words

import (
	"fmt"
	"strings"

	"recoveryledger/ledger/entry"
)

// Summary says in a few words what an entry says.
func Summary(body entry.Body) string {
	switch b := body.(type) {
	case *entry.Policy:
		if b.Previous == nil {
			return "genesis"
		}
		text := fmt.Sprintf("replaces %d", b.Previous.Index)
		if b.Rollout != nil {
			text += ", promotes rollout " + b.Rollout.Rollout
		}
		return text
	case *entry.Agent:
		return fmt.Sprintf("%s %s (%s)", b.Op, b.Principal, JoinRoles(b.Roles))
	case *entry.Execution:
		return fmt.Sprintf("%s %s, effect %s", b.Exec, b.Progress, b.Effect)
	case *entry.Checkpoint:
		return b.Checkpoint
	case *entry.Signal:
		return fmt.Sprintf("%s.%s of %s", b.Class, b.Code, b.Subject)
	case *entry.Decision:
		text := fmt.Sprintf("%s incident %d: %s", b.Act, b.Incident, b.Reason)
		if b.NotFenced != "" {
			text += "; NOT FENCED: " + b.NotFenced
		}
		return text
	case *entry.Approval:
		return fmt.Sprintf("%s proposal %d of incident %d", b.Verdict, b.Proposal.Index, b.Incident)
	case *entry.Outcome:
		return fmt.Sprintf("%s is %s, incident %d", b.Exec, b.Result, b.Incident)
	case *entry.Record:
		return fmt.Sprintf("incident %d is %s", b.Incident, b.State)
	case *entry.Task:
		return summaryOfTask(b)
	case *entry.Attempt:
		return summaryOfAttempt(b)
	case *entry.Rollout:
		return summaryOfRollout(b)
	case *entry.LogIndex:
		return fmt.Sprintf("%d subjects of %d entries", b.Subjects, b.Size)
	case *entry.Run:
		return strings.TrimSuffix(fmt.Sprintf("%s run %s: %s", b.Op, b.Run, b.Recommendation), ": ")
	}
	return ""
}

// summaryOfAttempt says which case it is, whose, and how it ended.
func summaryOfAttempt(b *entry.Attempt) string {
	text := "case " + b.Case
	if b.Run != "" {
		text += " of run " + b.Run
	}
	if b.Agent != "" {
		text += " of " + string(b.Agent)
	}
	switch text += ": " + string(b.Status); b.Arm {
	case entry.ArmCanary:
		text += " by the candidate"
	case entry.ArmShadow:
		text += " by the candidate, beside"
	case entry.ArmControl:
		text += " by the baseline"
	}
	if n := len(b.Also); n > 0 {
		text += fmt.Sprintf(", and %s", Counted(n, "further case"))
	}
	return text
}

// summaryOfRollout says how far a rollout goes by an entry, and why.
func summaryOfRollout(b *entry.Rollout) string {
	text := fmt.Sprintf("%s rollout %s", b.Op, b.Rollout)
	switch {
	case b.Stage == entry.StageCanary:
		text += fmt.Sprintf(": canary of %d ‰", b.SharePermille)
	case b.Stage != "":
		text += ": " + string(b.Stage)
	case b.Gate != "":
		text += ": gate " + string(b.Gate)
	}
	return text + ": " + b.Reason
}

// summaryOfTask says where a task goes by an entry, whose it is then, and why.
func summaryOfTask(b *entry.Task) string {
	text := fmt.Sprintf("%s %s: %s", b.Op, b.Task, b.To)
	if b.To == entry.TaskAssigned {
		text += fmt.Sprintf(" to %s, epoch %d", b.Agent, b.Epoch)
	}
	return text + ": " + b.Reason
}

// JoinRoles lists roles.
func JoinRoles(roles []entry.Role) string {
	var names []string
	for _, role := range roles {
		names = append(names, string(role))
	}
	return strings.Join(names, ",")
}
