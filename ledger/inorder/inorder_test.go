package inorder

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestOrder makes the first batch ready last: it is committed first all the same.
func TestOrder(t *testing.T) {
	var q Queue[int]
	var committed []int // each commit waits for the one before
	others := sync.WaitGroup{}
	others.Add(Most - 1)
	for i := range Most {
		ready := func() (int, error) {
			if i == 0 {
				others.Wait()
			} else {
				others.Done()
			}
			return i, nil
		}
		if err := q.Put(ready, func(n int) error { committed = append(committed, n); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Wait(); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(committed) || len(committed) != Most {
		t.Errorf("committed %v", committed)
	}
}

// TestBound: no more batches than Most are under way.
func TestBound(t *testing.T) {
	var q Queue[int]
	var mu sync.Mutex
	underWay, most := 0, 0
	for range 20 * Most {
		ready := func() (int, error) {
			mu.Lock()
			defer mu.Unlock()
			underWay++
			most = max(most, underWay)
			return 0, nil
		}
		commit := func(int) error {
			mu.Lock()
			defer mu.Unlock()
			underWay--
			return nil
		}
		if err := q.Put(ready, commit); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Wait(); err != nil || most > Most || underWay != 0 {
		t.Errorf("%d under way at most, %d at the end, %v", most, underWay, err)
	}
}

// TestFailure: the error of a batch is returned once, whichever step failed, and the batches behind
// it are committed.
func TestFailure(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name          string
		ready, commit error
	}{{"ready", broken, nil}, {"commit", nil, broken}} {
		t.Run(test.name, func(t *testing.T) {
			var q Queue[int]
			if err := q.Wait(); err != nil {
				t.Errorf("without a batch: %v", err)
			}
			tried := 0
			first := q.Put(func() (int, error) { return 1, test.ready }, func(int) error { tried++; return test.commit })
			if want := 1; errors.Join(first, q.Wait()) == nil || test.ready == nil && tried != want || test.ready != nil && tried != 0 {
				t.Errorf("no error, or %d commits", tried)
			}
			committed := false
			err := q.Put(func() (int, error) { return 2, nil }, func(int) error { committed = true; return nil })
			if err = errors.Join(err, q.Wait()); err != nil || !committed {
				t.Errorf("the next batch: %v, %t", err, committed)
			}
		})
	}
}
