package peer_test

import (
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/merkle"
)

// TestUnfit: a node whose clock is far from the median, or whose disk is full, lets another one
// lead, if one is fit. The fit one with the longest log leads.
func TestUnfit(t *testing.T) {
	shown := func(name string, size uint64, room bool) *cluster.Shown {
		return &cluster.Shown{Node: name, Head: merkle.Head{Size: size}, Room: room}
	}
	b, c, full := shown("b", 5, true), shown("c", 6, true), shown("c", 6, false)
	for what, test := range map[string]struct {
		room         bool
		others       []*cluster.Shown
		ahead        []time.Duration // seconds
		reason, heir string
	}{
		"alone":                        {true, nil, nil, "", ""},
		"alone, full":                  {false, nil, nil, "", ""},
		"all right":                    {true, []*cluster.Shown{b, c}, []time.Duration{10, -10}, "", ""},
		"another clock is wrong":       {true, []*cluster.Shown{b, c}, []time.Duration{3600, 1}, "", ""},
		"its clock is behind":          {true, []*cluster.Shown{b, c}, []time.Duration{3600, 3601}, "clock is 1h0m0s", "c"},
		"its clock is ahead":           {true, []*cluster.Shown{b, c}, []time.Duration{-40, -41}, "clock is 40s", "c"},
		"two clocks, nobody knows":     {true, []*cluster.Shown{b}, []time.Duration{3600}, "", ""},
		"two clocks, a little":         {true, []*cluster.Shown{b}, []time.Duration{50}, "", ""},
		"full":                         {false, []*cluster.Shown{b, c}, []time.Duration{0, 0}, "disk", "c"},
		"full, another one full":       {false, []*cluster.Shown{b, full}, []time.Duration{0, 0}, "disk", "b"},
		"full, the rest full":          {false, []*cluster.Shown{full}, []time.Duration{0}, "", ""},
		"full, the other clock is off": {false, []*cluster.Shown{b, full}, []time.Duration{100, 0}, "", ""},
	} {
		for i := range test.ahead {
			test.ahead[i] *= time.Second
		}
		reason, heir := peer.Unfit(shown("a", 6, test.room), test.others, test.ahead, 30*time.Second)
		if heir != test.heir || !strings.Contains(reason, test.reason) || test.reason == "" && reason != "" {
			t.Errorf("%s: %q, %q", what, reason, heir)
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
