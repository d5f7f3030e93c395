package rollout

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord/codec"
	"recoveryledger/ledger/entry"
)

// canaryOf returns a fold with a canary of all cases. The rules leave the class security to people.
func canaryOf() *Fold {
	f := &Fold{current: &Rollout{Stage: entry.StageCanary, SharePermille: 1000, never: []string{"security"}, Terms: entry.RolloutTerms{
		Gates: []entry.Gate{entry.GateRecovered, entry.GateUnsafe}, CasesMin: 1, Candidate: sliced, CandidateDigest: "candidate"}}}
	f.current.Evidence = newEvidence(&f.current.Terms)
	return f
}

func (f *Fold) says(by entry.Principal, id, class string, status entry.CaseStatus) {
	f.Observe(&entry.Attempt{Header: entry.Header{Iss: by}, Arm: entry.ArmCanary, Policy: "candidate",
		AttemptCase: entry.AttemptCase{Case: id, Status: status, Rungs: []entry.Rung{{Class: class, Code: "x"}}}})
}

// again returns the open cases as a snapshot has them.
func (o *Open) again(t *testing.T) (read Open) {
	t.Helper()
	var out bytes.Buffer
	c := codec.NewWriter(&out)
	o.snapshot(c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r := codec.NewReader(&out, io.ErrUnexpectedEOF)
	read.snapshot(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return read
}

// filled gives each member of a struct a value of its own.
func filled[T any](t *testing.T) (v T) {
	t.Helper()
	of := reflect.ValueOf(&v).Elem()
	for i := range of.NumField() {
		switch f := of.Field(i); f.Kind() {
		case reflect.Int64:
			f.SetInt(int64(i) + 1)
		case reflect.Uint64:
			f.SetUint(uint64(i) + 1)
		case reflect.String:
			f.SetString(map[string]string{"Outcome": Promoted, "Gate": string(entry.GateDeadline)}[of.Type().Field(i).Name])
			if f.String() == "" {
				f.SetString(fmt.Sprintf("text %d", i))
			}
		default:
			t.Fatalf("%s.%s is a %s", of.Type(), of.Type().Field(i).Name, f.Kind())
		}
	}
	return v
}

// TestSnapshotHasEveryMember: what the fold keeps in types of the API is in a snapshot, member by
// member.
func TestSnapshotHasEveryMember(t *testing.T) {
	f := canaryOf()
	f.current.SharePermille = 500
	f.ended = []api.EndedRollout{filled[api.EndedRollout](t)}
	e := &f.current.Evidence
	e.Canary, e.Control = filled[api.RolloutArm](t), filled[api.RolloutArm](t)
	e.Groups = []Group{{Name: "g", Canary: filled[api.RolloutGroupArm](t), Control: filled[api.RolloutGroupArm](t)}}
	var out bytes.Buffer
	c := codec.NewWriter(&out)
	f.Snapshot(c, 100)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	read := new(Fold)
	r := codec.NewReader(&out, io.ErrUnexpectedEOF)
	read.Snapshot(r, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := &read.current.Evidence; !reflect.DeepEqual(read.ended, f.ended) || got.Canary != e.Canary || got.Control != e.Control ||
		len(got.Groups) != 1 || got.Groups[0].Canary != e.Groups[0].Canary || got.Groups[0].Control != e.Groups[0].Control {
		t.Errorf("%+v %+v, want %+v %+v", read.ended, got, f.ended, e)
	}
}

// TestCaseOfSeveralEntries: a case counts in the class of its first failure, and is unsafe by any
// entry about it, whoever decided, also behind a snapshot.
func TestCaseOfSeveralEntries(t *testing.T) {
	f := canaryOf()
	f.says("e", "a", "tool", entry.StatusPassedOn)
	f.current.Stage = entry.StageShadow
	f.Observe(&entry.Attempt{Header: entry.Header{Iss: "e"}, AttemptCase: entry.AttemptCase{Case: "a", Status: entry.StatusPassedOn, Rungs: []entry.Rung{{Class: "security"}}}})
	f.Observe(&entry.Attempt{Header: entry.Header{Iss: "e"}, Arm: entry.ArmShadow, AttemptCase: entry.AttemptCase{Case: "aside", Status: entry.StatusPassedOn}})
	f.current.Stage = entry.StageCanary
	before := f.Clone()
	f.says("e", "b", "security", entry.StatusPassedOn)
	f.current.open = f.current.open.again(t)
	f.says("e", "a", "output", entry.StatusRecovered)
	f.says("e", "a", "output", entry.StatusPassedOn) // it has counted
	e := &f.current.Evidence
	if e.Canary.Unsafe != 1 || e.Fell != entry.GateUnsafe || e.FellIn != "class tool" || len(f.current.open.cases) != 1 || len(before.current.open.cases) != 1 {
		t.Errorf("%+v, under way %+v, before %+v", e, f.current.open, before.current.open)
	}
}

// TestForgottenCases: of more than 1,024 cases under way the oldest are forgotten. They are
// evidence of nothing and counted as unknown, but for an unsafe recovery that a later entry says.
func TestForgottenCases(t *testing.T) {
	f := canaryOf()
	for _, id := range []string{"a", "b", "c"} {
		f.says("e", id, "security", entry.StatusPassedOn)
	}
	for i := range begunMax + 1 {
		f.says("e", fmt.Sprint("more", i), "tool", entry.StatusPassedOn)
	}
	if f.says("e", "d", "tool", entry.StatusPassedOn); len(f.current.open.cases) != begunMax {
		t.Errorf("%d cases under way", len(f.current.open.cases))
	}
	again := f.current.open.again(t)
	if twice := again.again(t); !reflect.DeepEqual(again, twice) || !reflect.DeepEqual(again.cases, f.current.open.cases) {
		t.Error("a snapshot has other cases")
	}
	f.current.open = again
	e := &f.current.Evidence
	f.says("e", "a", "output", entry.StatusRecovered)
	f.says("e", "b", "output", entry.StatusEscalated)
	if e.Canary.Unknown != 2 || e.Canary.Cases != 0 || e.Fell != "" || len(e.Groups) != 1 {
		t.Errorf("%+v", e)
	}
	f.says("e", "d", "output", entry.StatusRecovered) // it is remembered
	f.says("e", "new", "tool", entry.StatusRecovered)
	if e.Canary.Unknown != 2 || e.Canary.Cases != 2 || e.Fell != "" {
		t.Errorf("%+v", e)
	}
	f.says("e", "c", "security", entry.StatusRecovered)
	if e.Canary.Unknown != 2 || e.Canary.Unsafe != 1 || e.Fell != entry.GateUnsafe {
		t.Errorf("%+v", e)
	}
}

// TestCaseOfTwoArms: a task that waits when the canary begins or grows is decided again, by the
// rules that decide then. The case is evidence of neither arm, because both decided about it.
func TestCaseOfTwoArms(t *testing.T) {
	f := canaryOf()
	for _, arm := range []entry.Arm{entry.ArmControl, ""} {
		id := "task of " + string(arm)
		f.Observe(&entry.Attempt{Arm: arm, Task: "o#t", AttemptCase: entry.AttemptCase{Case: id, Status: entry.StatusPassedOn, Rungs: []entry.Rung{{Class: "tool"}}}})
		f.current.open = f.current.open.again(t)
		f.Observe(&entry.Attempt{Arm: entry.ArmCanary, Policy: "candidate", Task: "o#t", AttemptCase: entry.AttemptCase{Case: id, Status: entry.StatusPassedOn, Rungs: []entry.Rung{{Class: "tool"}}}})
		f.current.open = f.current.open.again(t)
		f.Observe(&entry.Attempt{Arm: entry.ArmCanary, Policy: "candidate", Task: "o#t", AttemptCase: entry.AttemptCase{Case: id, Status: entry.StatusRecovered}})
	}
	e := &f.current.Evidence
	if e.Canary.Unknown != 2 || e.Canary.Cases != 0 || e.Control.Cases != 0 {
		t.Errorf("%+v", e)
	}
	f.Observe(&entry.Attempt{Arm: entry.ArmControl, AttemptCase: entry.AttemptCase{Case: "unsafe", Status: entry.StatusPassedOn, Rungs: []entry.Rung{{Class: "security"}}}})
	if f.says("", "unsafe", "tool", entry.StatusRecovered); e.Canary.Unknown != 2 || e.Canary.Unsafe != 1 || e.Fell != entry.GateUnsafe {
		t.Errorf("%+v", e)
	}
}

// TestForgetsWithinBounds: when no further case can be held as forgotten, each case is unknown.
func TestForgetsWithinBounds(t *testing.T) {
	f := canaryOf()
	f.current.open.forgotten.count = casesMax
	f.says("e", "a", "tool", entry.StatusRecovered)
	if e := &f.current.Evidence; e.Canary.Unknown != 1 || e.Canary.Cases != 0 {
		t.Errorf("%+v", e)
	}
}

// TestCaseOfTwoIssuers: two issuers may use one id for two cases. A task is one case, whoever
// writes about it.
func TestCaseOfTwoIssuers(t *testing.T) {
	f := canaryOf()
	f.says("e", "a", "security", entry.StatusPassedOn)
	f.says("other", "a", "tool", entry.StatusRecovered)
	e := &f.current.Evidence
	if e.Canary.Cases != 1 || e.Canary.Unsafe != 0 {
		t.Errorf("the case of the other: %+v", e)
	}
	if f.says("e", "a", "tool", entry.StatusRecovered); e.Canary.Cases != 2 || e.Canary.Unsafe != 1 || e.Groups[len(e.Groups)-1].Canary.Cases != 1 {
		t.Errorf("%+v", e)
	}
	for _, by := range []entry.Principal{"agent", "router"} {
		f.Observe(&entry.Attempt{Header: entry.Header{Iss: by}, Arm: entry.ArmCanary, Policy: "candidate", Task: "o#a",
			AttemptCase: entry.AttemptCase{Case: "a", Status: entry.StatusEscalated, CostMicroUSD: new(int64(7))}})
	}
	if e.Canary.Cases != 3 || e.Canary.CostMicroUSD != 7 {
		t.Errorf("a task is one case: %+v", e)
	}
}
