package peer_test

import (
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/merkle"
)

// TestFit: a node whose clock is far from the median does not lead, even if no other node is fit.
// While nobody knows which clock is wrong, a node goes on, and says so. A node whose disk is full
// lets another one lead, if one is fit. The fit one with the longest log leads.
func TestFit(t *testing.T) {
	shown := func(name string, size uint64, room bool, ahead time.Duration) *cluster.Shown {
		return &cluster.Shown{Node: name, Head: merkle.Head{Size: size}, Room: room, Ahead: ahead * time.Second}
	}
	b := func(ahead time.Duration) *cluster.Shown { return shown("b", 5, true, ahead) }
	c := func(ahead time.Duration) *cluster.Shown { return shown("c", 6, true, ahead) }
	full := func(ahead time.Duration) *cluster.Shown { return shown("c", 6, false, ahead) }
	type all = []*cluster.Shown
	for what, test := range map[string]struct {
		room   bool
		others all
		aside  bool
		why    string
		heir   string
	}{
		"alone":                         {true, nil, false, "", ""},
		"alone, full":                   {false, nil, false, "disk", ""},
		"all right":                     {true, all{b(10), c(-10)}, false, "", ""},
		"another clock is wrong":        {true, all{b(3600), c(1)}, false, "", ""},
		"its clock is behind":           {true, all{b(3600), c(3601)}, true, "clock is 1h0m0s", "c"},
		"its clock is ahead":            {true, all{b(-40), c(-41)}, true, "clock is 40s", "c"},
		"its clock is wrong, rest full": {true, all{shown("b", 5, false, 3600), full(3600)}, true, "clock is 1h0m0s", ""},
		"two clocks, nobody knows":      {true, all{b(3600)}, false, "differ by 1h0m0s", ""},
		"two clocks, a little":          {true, all{b(50)}, false, "", ""},
		"two and two, nobody knows":     {true, all{b(0), c(3600), shown("d", 7, true, 3600)}, false, "differ by 1h0m0s", ""},
		"four clocks, its own is wrong": {true, all{b(3600), c(3610), shown("d", 4, true, 3620)}, true, "clock is 1h0m5s", "c"},
		"beyond two that differ":        {true, all{b(7200), c(3600), shown("d", 7, true, 7200)}, true, "clock is 1h0m0s", "d"},
		"full":                          {false, all{b(0), c(0)}, true, "disk", "c"},
		"full, another one full":        {false, all{b(0), full(0)}, true, "disk", "b"},
		"full, the rest full":           {false, all{full(0)}, false, "disk", ""},
		"full, the other clock is off":  {false, all{b(100), full(0)}, false, "disk", ""},
	} {
		f := peer.Fit(shown("a", 6, test.room, 0), test.others, 30*time.Second)
		if f.Aside != test.aside || f.Heir != test.heir || !strings.Contains(f.Why, test.why) || (test.why == "") != (f.Why == "") {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// TestRoomless: entries are taken while a majority of the voters has room. A voter that is silent
// counts as one without room once another has none, a silence alone is no lack of room, and who
// does not vote does not count.
func TestRoomless(t *testing.T) {
	members := []cluster.Member{{Name: "a", Voter: true}, {Name: "b", Voter: true}, {Name: "c", Voter: true}, {Name: "d"}}
	said := func(words string) (all []*cluster.Shown) { // a small letter: no room
		for _, r := range words {
			all = append(all, &cluster.Shown{Node: strings.ToLower(string(r)), Room: r < 'a'})
		}
		return all
	}
	var r peer.Rooms
	for i, step := range []struct {
		after       time.Duration
		said, wants string
	}{
		{0, "ABC", ""}, {1, "A", ""}, {9, "A", ""}, {10, "ABc", ""}, {11, "Ac", ""}, {17, "Ac", "c"}, {18, "ABc", ""},
		{19, "Abc", "bc"}, {20, "Ad", "bc"}, {21, "AB", ""}, {30, "A", "c"}, {31, "ABC", ""}, {32, "abC", "ab"}, {33, "abc", "abc"}, {34, "BC", ""}, {60, "A", ""},
	} {
		if got := strings.Join(r.Roomless(time.Unix(0, 0).Add(step.after*time.Second), said(step.said), members), ""); got != step.wants {
			t.Errorf("step %d: %q, want %q", i, got, step.wants)
		}
	}
}
