package verify_test

import (
	"os"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestMain leaves make race what InParallel does: the rest has one goroutine.
func TestMain(m *testing.M) { os.Exit(budget.Raced(m, "TestHistoryVectors")) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// forkEvidence is the evidence of two heads.
func forkEvidence(detail, older, newer string) *verify.Evidence {
	return (&verify.ForkError{First: older, Second: newer, Detail: detail}).Evidence()
}

// beside adds heads to a material.
func beside(m verify.Material, heads ...string) verify.Material {
	m.Heads = append(m.Heads, heads...)
	return m
}

// cast are the keys of a small company.
type cast struct {
	authority, enroller, coordinator, operator, approver, monitor, engine, agent testlog.Key
}

func newCast(tb testing.TB) cast {
	tb.Helper()
	of := func(name entry.Principal) testlog.Key { return testlog.NewKey(tb, name, string(name)) }
	return cast{of("authority"), of("enroller"), of("coordinator"), of("operator"), of("approver"), of("monitor"), of("engine"), of("agent")}
}

// holders returns who was given which role by [newCompany].
func (c cast) holders() map[entry.Role]testlog.Key {
	return map[entry.Role]testlog.Key{
		entry.RoleEnroller: c.enroller, entry.RoleCoordinator: c.coordinator, entry.RoleOperator: c.operator,
		entry.RoleApprover: c.approver, entry.RoleMonitor: c.monitor, entry.RoleEngine: c.engine, entry.RoleAgent: c.agent,
	}
}

// newCompany returns a log with a genesis policy, at index 0, and one principal
// for each role, enrolled by the authority in the order of [entry.Roles] except
// for the agent, which the enroller enrols last.
func newCompany(tb testing.TB) (*testlog.Log, cast) {
	tb.Helper()
	l, c := testlog.New(tb), newCast(tb)
	l.Add(c.authority.Sign(tb, l.Policy(c.authority, c.authority)))
	for _, role := range entry.Roles() {
		if role != entry.RoleAgent {
			l.Add(c.authority.Sign(tb, l.Agent(c.authority, entry.Enrol, c.holders()[role], role)))
		}
	}
	l.Add(c.enroller.Sign(tb, l.Agent(c.enroller, entry.Enrol, c.agent, entry.RoleAgent)))
	return l, c
}
