package entry

import (
	"reflect"
	"testing"

	"recoveryledger/merkle"
)

// fillRefs sets the nth LogRef within v to an index, and allocates what is on the way to it. It
// returns what is left of n once v is passed; negative: the reference is set.
func fillRefs(v reflect.Value, n int, index uint64) int {
	switch {
	case v.Type() == reflect.TypeFor[LogRef]():
		if n == 0 {
			v.FieldByName("Index").SetUint(index)
		}
		return n - 1
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		made := reflect.New(v.Type().Elem())
		left := fillRefs(made.Elem(), n, index)
		if left < 0 {
			v.Set(made)
		}
		return left
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			if n = fillRefs(field, n, index); n < 0 {
				break
			}
		}
	}
	return n
}

// at returns a body as an entry at an index.
func at(index uint64, body Body) *Registered {
	return &Registered{Entry: &Entry{Kind: body.Kind(), Body: body}, Index: index}
}

// TestRestsOnReferences sets every LogRef of every kind in turn: the entry rests on the one that
// the reference points at, and on none beside it.
func TestRestsOnReferences(t *testing.T) {
	found := 0
	for _, kind := range Kinds() {
		for n := 0; ; n++ {
			body := newBody(kind)
			if fillRefs(reflect.ValueOf(body).Elem(), n, 7) >= 0 {
				break
			}
			found++
			for index, want := range map[uint64]bool{6: false, 7: true, 8: false} {
				if got := at(9, body).RestsOn(at(index, &Approval{})); got != want {
					t.Errorf("reference %d of %s to 7: rests on %d: %v, want %v", n, kind, index, got, want)
				}
			}
		}
	}
	if found < 9 {
		t.Errorf("%d references", found)
	}
}

// TestRestsOn gives what an entry rests on without a LogRef, and what it does not rest on.
func TestRestsOn(t *testing.T) {
	execution := func(iss Principal, exec string, parents ...Ref) *Execution {
		x := &Execution{Header: Header{Iss: iss}, Exec: exec}
		for _, p := range parents {
			x.Parents = append(x.Parents, Parent{Exec: p, Dep: Soft})
		}
		return x
	}
	plan := &Decision{Pin: &merkle.Head{Size: 6}}
	for _, c := range []struct {
		name         string
		older, newer *Registered
		want         bool
	}{
		{"a plan on a signal below its pin", at(5, &Signal{}), at(9, plan), true},
		{"no plan on a signal behind its pin", at(6, &Signal{}), at(9, plan), false},
		{"no plan on an outcome below its pin", at(5, &Outcome{}), at(9, plan), false},
		{"no decision without a plan on a signal", at(5, &Signal{}), at(9, &Decision{}), false},
		{"a decision on an approval", at(5, &Approval{}), at(9, &Decision{Approvals: []uint64{4, 5}}), true},
		{"a deny on a signal", at(5, &Signal{}), at(9, &Decision{Dispositions: []Disposition{{Index: 5}}}), true},
		{"a plan on a signal that it leaves out", at(5, &Signal{}), at(9, &Decision{Dismissed: []Dismissal{{Index: 5}}}), true},
		{"a record on a signal", at(5, &Signal{}), at(9, &Record{Dispositions: []Disposition{{Index: 4}, {Index: 5}}}), true},
		{"an execution on its earlier step", at(5, execution("a", "x")), at(9, execution("a", "x")), true},
		{"an execution on a parent", at(5, execution("a", "x")), at(9, execution("b", "y", "c#z", "a#x")), true},
		{"no execution on another", at(5, execution("a", "x")), at(9, execution("b", "x", "a#y")), false},
		{"none on itself", at(9, execution("a", "x")), at(9, execution("a", "x")), false},
		{"none on a newer one", at(10, execution("a", "x")), at(9, execution("a", "x")), false},
		{"no approval on the signal of its incident", at(5, &Signal{}), at(9, &Approval{Incident: 5}), false},
	} {
		if got := c.newer.RestsOn(c.older); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
