package peer

import (
	"fmt"
	"slices"
	"time"

	"recoveryledger/ledger/cluster"
)

// roomTime is for how long the word of a node that its disk has room counts.
const roomTime = 5 * time.Second

// Rooms is what the nodes have said of the room on their disks. The zero value has heard nothing.
type Rooms struct{ heard map[string]word }

// word is what a node said last.
type word struct {
	room bool
	at   time.Time
}

// Roomless hears what the nodes have shown, this one among them, and returns the voters without
// room. None: a majority of the voters has room, or no voter has said that it has none. A voter
// that has been silent for [roomTime] is not one with room. Silence alone is no lack of room: the
// nodes that agree on batches find out whether they are a majority.
func (r *Rooms) Roomless(now time.Time, shown []*cluster.Shown, members []cluster.Member) (names []string) {
	if r.heard == nil {
		r.heard = map[string]word{}
	}
	for _, s := range shown {
		r.heard[s.Node] = word{s.Room, now}
	}
	voters, roomy := 0, 0
	for i := range members {
		if !members[i].Voter {
			continue
		}
		voters++
		switch last, ok := r.heard[members[i].Name]; {
		case ok && !last.room:
			names = append(names, members[i].Name)
		case now.Sub(last.at) <= roomTime:
			roomy++
		}
	}
	if roomy > voters/2 {
		return nil
	}
	return names
}

// Fitness says whether a node may order the log.
type Fitness struct {
	Aside bool   // whether it must not
	Why   string // what is wrong; empty: nothing
	Heir  string // the node that should lead instead; empty: no other node that answered is fit
}

// Fit judges a node by what the others have shown, and their clocks. A clock may be most away from
// the median of all clocks.
//
// A node whose clock is farther away must not order the log, even if no other node is fit: entries
// that were registered ahead of time would stop its successor. If the clocks in the middle differ,
// as two clocks may, nobody knows which one is wrong. Then the node goes on, and Why names the
// distance. A node without room lets another one lead, if one is fit; its own log refuses entries.
func Fit(own *cluster.Shown, others []*cluster.Shown, most time.Duration) (f Fitness) {
	m := medianOf(others, most)
	switch {
	case m.off(0) > most:
		f = Fitness{Aside: true, Why: fmt.Sprintf("its clock is %v from the median of the nodes", m.off(0).Round(time.Millisecond))}
	case !own.Room:
		f = Fitness{Why: "its disk has no room"}
	case m.least != m.greatest:
		return Fitness{Why: fmt.Sprintf("clocks of the nodes differ by %v, and nobody knows which one is wrong", (m.greatest - m.least).Round(time.Millisecond))}
	default:
		return Fitness{}
	}
	size := uint64(0)
	for _, other := range others {
		if other.Room && m.off(other.Ahead) <= most && (f.Heir == "" || other.Size > size) {
			f.Heir, size = other.Node, other.Size
		}
	}
	f.Aside = f.Aside || f.Heir != ""
	return f
}

// median is what the clocks of the nodes agree on, relative to that of this node. If the clocks in
// the middle differ, each instant between the two may be right.
type median struct{ least, greatest time.Duration }

func medianOf(others []*cluster.Shown, most time.Duration) median {
	clocks := []time.Duration{0}
	for _, other := range others {
		clocks = append(clocks, other.Ahead)
	}
	slices.Sort(clocks)
	m := median{clocks[(len(clocks)-1)/2], clocks[len(clocks)/2]}
	if m.greatest-m.least <= 2*most {
		middle := m.least + (m.greatest-m.least)/2
		m = median{middle, middle}
	}
	return m
}

// off returns how far a clock is away.
func (m median) off(clock time.Duration) time.Duration {
	return max(m.least-clock, clock-m.greatest, 0)
}
