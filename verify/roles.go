package verify

import (
	"strings"

	"recoveryledger/ledger/entry"
)

// rolesFor is the table of protocol.md, section 3: the roles that may sign an
// entry with this content. Policies are the authority's; agents are the
// authority's and, if plain, those of the roles that the policy lists.
func rolesFor(body entry.Body) []entry.Role {
	switch b := body.(type) {
	case *entry.Execution, *entry.Checkpoint:
		return []entry.Role{entry.RoleAgent}
	case *entry.Signal:
		return rolesForSignal(b.Standing)
	case *entry.Decision:
		return rolesForDecision(b)
	case *entry.Approval:
		return []entry.Role{entry.RoleApprover}
	case *entry.Outcome:
		if b.Result == entry.ResultUnknown {
			return []entry.Role{entry.RoleAgent, entry.RoleCoordinator, entry.RoleApprover}
		}
		return []entry.Role{entry.RoleAgent}
	case *entry.Record:
		return []entry.Role{entry.RoleCoordinator, entry.RoleApprover}
	case *entry.Task:
		return rolesForTask(b)
	case *entry.Run:
		return []entry.Role{entry.RoleEngine}
	case *entry.Attempt:
		return []entry.Role{entry.RoleEngine, entry.RoleCoordinator, entry.RoleAgent}
	case *entry.LogIndex:
		return []entry.Role{entry.RoleCoordinator}
	case *entry.Rollout:
		return rolesForRollout(b.Op)
	}
	return nil
}

func rolesForRollout(op entry.RolloutOp) []entry.Role {
	switch op {
	case entry.RolloutWaive:
		return []entry.Role{entry.RoleApprover}
	case entry.RolloutAbort:
		return []entry.Role{entry.RoleOperator, entry.RoleApprover, entry.RoleCoordinator}
	}
	return []entry.Role{entry.RoleOperator}
}

func rolesForSignal(standing entry.Standing) []entry.Role {
	switch standing {
	case entry.StandingMonitor:
		return []entry.Role{entry.RoleMonitor}
	case entry.StandingOperator:
		return []entry.Role{entry.RoleOperator}
	}
	return []entry.Role{entry.RoleAgent}
}

// rolesForDecision: a principal that may signal may escalate. The state machine checks that it
// signaled, and that it is not too early (INC-1).
func rolesForDecision(d *entry.Decision) []entry.Role {
	switch d.Act {
	case entry.ActDeny:
		if d.Supersedes != nil { // a person acknowledges what no approver answered
			return []entry.Role{entry.RoleCoordinator, entry.RoleApprover, entry.RoleOperator}
		}
	case entry.ActOverride:
		return []entry.Role{entry.RoleOperator, entry.RoleApprover}
	case entry.ActEscalate:
		return []entry.Role{entry.RoleCoordinator, entry.RoleApprover, entry.RoleAgent, entry.RoleMonitor, entry.RoleOperator}
	}
	return []entry.Role{entry.RoleCoordinator, entry.RoleApprover}
}

func rolesForTask(t *entry.Task) []entry.Role {
	if t.Op == entry.TaskCreate && t.About != nil { // it asks people, and gives no work to anybody
		return []entry.Role{entry.RoleEngine}
	}
	switch t.Op {
	case "create", "reassign", "cancel", "release":
		return []entry.Role{entry.RoleOperator}
	case "start", "review", "complete", "block":
		return []entry.Role{entry.RoleAgent}
	}
	return []entry.Role{entry.RoleCoordinator} // assign, fail, interrupt
}

// rightsSubject names the part of an entry on which its signer's rights depend.
func rightsSubject(body entry.Body) string {
	kind := string(body.Kind())
	switch b := body.(type) {
	case *entry.Agent:
		return kind + " granting " + names(b.Roles)
	case *entry.Signal:
		return kind + " with standing " + string(b.Standing)
	case *entry.Decision:
		return kind + " with act " + string(b.Act)
	case *entry.Outcome:
		return kind + " with result " + string(b.Result)
	case *entry.Task:
		if b.About != nil {
			return kind + " with op " + b.Op + " about a case"
		}
		return kind + " with op " + b.Op
	case *entry.Rollout:
		return kind + " with op " + string(b.Op)
	}
	return kind
}

func names(roles []entry.Role) string {
	if len(roles) == 0 {
		return "only the policy's authority"
	}
	var list []string
	for _, role := range roles {
		list = append(list, string(role))
	}
	return strings.Join(list, ", ")
}
