package verify_test

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// wantNotChecked fails unless these, by how they begin, are not checked beyond
// what never is.
func wantNotChecked(t *testing.T, report verify.Report, want []string) {
	t.Helper()
	got := notChecked(report)
	if len(got) != len(want) {
		t.Fatalf("not checked %q, want %q", got, want)
	}
	for i, prefix := range want {
		if !strings.HasPrefix(got[i], prefix) {
			t.Errorf("not checked %q, want %q…", got[i], prefix)
		}
	}
}

// TestWithoutChainMaterialSignaturesAreReportedAsNotChecked drops receipts of
// the chain and looks that what hangs on them is named, not passed over.
func TestWithoutChainMaterialSignaturesAreReportedAsNotChecked(t *testing.T) {
	l, c := working(t)
	spare := testlog.NewKey(t, "agent", "spare")
	rotation := l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Rotate, spare, entry.RoleAgent)))
	_, inForce := l.Chain().Policy()
	var policies []uint64
	for range 2 {
		p := l.Policy(c.authority, c.authority)
		p.Previous = &inForce
		policies = append(policies, l.Add(c.authority.Sign(t, p)))
		_, inForce = l.Chain().Policy()
	}
	l.Add(spare.Sign(t, l.Execution(spare)))
	cases := []struct {
		name     string
		drop     []uint64
		unsigned int
		want     []string
	}{
		{"nothing dropped", nil, 0, nil},
		{"an execution", []uint64{10}, 0, nil},
		{"the genesis", []uint64{0}, 18, []string{"signer and signature of 18 entries"}},
		{"everything but one execution", []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18}, 1, []string{"signer and signature of 1 entry"}},
		{"the enroller", []uint64{1}, 10, []string{"entry 7 (agent)", "entry 8 (agent)", "entry 9 (execution)", "entry 10 (execution)",
			"entry 11 (execution)", "entry 12 (execution)", "entry 13 (execution)", "entry 14 (execution)", "entry 15 (agent)", "entry 18 (execution)"}},
		{"the agent", []uint64{7}, 5, []string{"entry 9 (execution)", "entry 11 (execution)", "entry 13 (execution)",
			"entry 15 (agent): its place in the chain", "entry 18 (execution)"}},
		{"the rotation", []uint64{rotation}, 1, []string{"entry 18 (execution)"}},
		{"a policy in the middle", policies[:1], 1, []string{"entry 17 (policy): its place in the chain"}},
		{"the policies at the end", policies, 0, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			receipts := slices.DeleteFunc(l.All(), func(r verify.Receipt) bool { return slices.Contains(tc.drop, r.Index) })
			report, err := l.Root.Verify(verify.Material{Receipts: receipts})
			must(t, err)
			wantNotChecked(t, report, tc.want)
			unsigned := 0
			for _, e := range report.Entries {
				if e.Signed != e.SignatureChecked {
					t.Errorf("entry %d: signed %v, checked %v", e.Index, e.Signed, e.SignatureChecked)
				}
				if !e.Signed {
					unsigned++
				}
			}
			if len(report.Entries) != len(receipts) || unsigned != tc.unsigned {
				t.Errorf("%d of %d entries unsigned, want %d", unsigned, len(report.Entries), tc.unsigned)
			}
		})
	}
}

// TestAMissingPolicyIsNoFailure: where a policy that is not given could allow
// what those given do not, nothing is known, and that is said; where no entry is
// missing that could, the ledger has broken the rules.
func TestAMissingPolicyIsNoFailure(t *testing.T) {
	fresh := testlog.NewKey(t, "fresh", "fresh")
	second := testlog.NewKey(t, "authority", "second authority")
	// follow logs a policy after the one in force.
	follow := func(l *testlog.Log, by testlog.Key, change func(*entry.Policy), authority ...testlog.Key) uint64 {
		p := l.Policy(by, authority...)
		_, inForce := l.Chain().Policy()
		p.Previous = &inForce
		change(p)
		return l.Add(by.Sign(t, p))
	}
	same := func(*entry.Policy) {}
	letCoordinators := func(p *entry.Policy) {
		p.Roles[entry.RoleAgent] = append(p.Roles[entry.RoleAgent], entry.RoleCoordinator)
	}
	cases := []struct {
		name string
		do   func(l *testlog.Log, c cast) (missing uint64)
		want []string // not checked without the missing entry
	}{
		{"who may enrol was widened", func(l *testlog.Log, c cast) uint64 {
			missing := follow(l, c.authority, letCoordinators, c.authority)
			l.Add(c.coordinator.Sign(t, l.Agent(c.coordinator, entry.Enrol, fresh, entry.RoleAgent)))
			l.Add(fresh.Sign(t, l.Execution(fresh)))
			return missing
		}, []string{"entry 9 (agent)", "entry 10 (execution)"}},
		{"the same, and a later policy tells of the missing one", func(l *testlog.Log, c cast) uint64 {
			missing := follow(l, c.authority, letCoordinators, c.authority)
			l.Add(c.coordinator.Sign(t, l.Agent(c.coordinator, entry.Enrol, fresh, entry.RoleAgent)))
			follow(l, c.authority, same, c.authority)
			l.Add(c.agent.Sign(t, l.Execution(c.agent)))
			return missing
		}, []string{"entry 9 (agent): its place in the chain, and with it what it lets in", "entry 10 (policy): its place in the chain, and with it what it lets in"}},
		{"what the older policy would allow is not taken for allowed by the missing one", func(l *testlog.Log, c cast) uint64 {
			missing := follow(l, c.authority, func(p *entry.Policy) { p.Roles[entry.RoleAgent] = nil }, c.authority)
			l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Enrol, fresh, entry.RoleAgent)))
			follow(l, c.authority, same, c.authority)
			return missing
		}, []string{"entry 9 (agent)", "entry 10 (policy)"}},
		{"the authority changed hands", func(l *testlog.Log, c cast) uint64 {
			missing := follow(l, c.authority, same, second)
			l.Add(second.Sign(t, l.Agent(second, entry.Enrol, fresh, entry.RoleApprover)))
			return missing
		}, []string{"entry 9 (agent)"}},
		{"the authority came back", func(l *testlog.Log, c cast) uint64 {
			follow(l, c.authority, same, second)
			missing := follow(l, second, same, c.authority)
			l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Enrol, fresh, entry.RoleApprover)))
			return missing
		}, []string{"entry 10 (agent)"}},
		{"a principal left the authority", func(l *testlog.Log, c cast) uint64 {
			missing := follow(l, c.authority, same, testlog.NewKey(t, "another", "another"))
			namesake := fresh
			namesake.Principal = "authority"
			l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Enrol, namesake, entry.RoleAgent)))
			return missing
		}, []string{"entry 9 (agent)"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l, c := newCompany(t)
			missing := tc.do(l, c)
			report, err := l.Root.Verify(verify.Material{Receipts: l.All()})
			must(t, err)
			if got := notChecked(report); len(got) > 0 {
				t.Fatalf("with everything, not checked %q", got)
			}
			left := slices.Delete(l.All(), int(missing), int(missing)+1)
			for _, receipts := range [][]verify.Receipt{left, slices.Concat(left, left)} { // a second receipt makes up for none
				report, err = l.Root.Verify(verify.Material{Receipts: receipts})
				must(t, err)
				wantNotChecked(t, report, tc.want)
			}
		})
	}
}

// TestWhatNoMissingEntryCouldAllowIsAFailure leaves entries out that have
// nothing to do with what the ledger did wrong.
func TestWhatNoMissingEntryCouldAllowIsAFailure(t *testing.T) {
	fresh := testlog.NewKey(t, "fresh", "fresh")
	cases := []struct {
		name string
		do   func(l *testlog.Log, c cast)
		drop []uint64
	}{
		{"a key never enrolled, in a whole log", func(l *testlog.Log, _ cast) { l.Add(fresh.Sign(t, l.Execution(fresh))) }, nil},
		{"a revocation of a key never enrolled, in a whole log", func(l *testlog.Log, c cast) {
			l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Revoke, fresh, entry.RoleAgent)))
		}, nil},
		{"a policy by another than its predecessor's authority", func(l *testlog.Log, _ cast) {
			p := l.Policy(fresh, fresh)
			_, inForce := l.Chain().Policy()
			p.Previous = &inForce
			l.Add(fresh.Sign(t, p))
		}, []uint64{2, 3}},
		{"a role that the key was not enrolled with", func(l *testlog.Log, c cast) {
			l.Add(c.approver.Sign(t, l.Execution(c.approver)))
		}, []uint64{2, 3}},
		{"a role that no policy lets an enroller grant", func(l *testlog.Log, c cast) {
			l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Enrol, fresh, entry.RoleApprover)))
		}, []uint64{2, 3}},
		{"a name that was raised", func(l *testlog.Log, c cast) {
			namesake := fresh
			namesake.Principal = "approver"
			l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Enrol, namesake, entry.RoleAgent)))
		}, []uint64{2, 3}},
		{"an enrolment that the policy in force does not allow, with nothing missing since", func(l *testlog.Log, c cast) {
			p := l.Policy(c.authority, c.authority)
			_, inForce := l.Chain().Policy()
			p.Previous = &inForce
			l.Add(c.authority.Sign(t, p))
			l.Add(c.coordinator.Sign(t, l.Agent(c.coordinator, entry.Enrol, fresh, entry.RoleAgent)))
		}, []uint64{6}},
		{"a predecessor that is later than the policy", func(l *testlog.Log, c cast) {
			p := l.Policy(c.authority, c.authority)
			p.Previous = &entry.LogRef{Index: 99}
			l.Add(c.authority.Sign(t, p))
		}, []uint64{2, 3}},
		{"a predecessor that is no policy", func(l *testlog.Log, c cast) {
			p := l.Policy(c.authority, c.authority)
			p.Previous = &entry.LogRef{Index: 4, LeafHash: merkle.HashLeaf(l.Leaves[4])}
			l.Add(c.authority.Sign(t, p))
		}, []uint64{2, 3}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l, c := newCompany(t)
			tc.do(l, c)
			receipts := slices.DeleteFunc(l.All(), func(r verify.Receipt) bool { return slices.Contains(tc.drop, r.Index) })
			_, err := l.Root.Verify(verify.Material{Receipts: receipts})
			wantStep(t, err, verify.StepSigner)
		})
	}
}

// TestAPolicyIsAskedForInItsPlace: of those that are missing the first, and none that
// a policy says to follow though it came later.
func TestAPolicyIsAskedForInItsPlace(t *testing.T) {
	l, c := newCompany(t)
	stranger := testlog.NewKey(t, "stranger", "stranger")
	follow := func(by testlog.Key, index uint64) {
		p := l.Policy(by, by)
		p.Previous = &entry.LogRef{Index: index}
		l.Add(by.Sign(t, p))
	}
	follow(c.authority, 5) // 8
	follow(c.authority, 3) // 9
	without := func(dropped ...uint64) verify.Report {
		receipts := slices.DeleteFunc(l.All(), func(r verify.Receipt) bool { return slices.Contains(dropped, r.Index) })
		report, err := l.Root.Verify(verify.Material{Receipts: receipts})
		must(t, err)
		return report
	}
	report := without(3, 5)
	if first := report.Missing[0]; len(report.Missing) != 5 || !strings.HasPrefix(first.What, "entry 4 (agent)") || first.Give != "the receipt of the policy at 3" {
		t.Errorf("missing %q", report.Missing)
	}
	l, c = newCompany(t)
	follow(stranger, 10)                                                                                                   // 8: who that is, is not known
	l.Add(c.agent.Sign(t, l.Execution(c.agent)))                                                                           // 9
	l.Add(c.agent.Sign(t, l.Execution(c.agent)))                                                                           // 10
	l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Enrol, testlog.NewKey(t, "fresh", "fresh"), entry.RoleApprover))) // 11
	report = without(5, 10)
	if len(report.Missing) != 1 || !strings.HasPrefix(report.Missing[0].What, "entry 8 (policy)") || !report.Entries[9].Signed {
		t.Errorf("missing %q", report.Missing)
	}
}
