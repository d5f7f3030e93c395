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

// Unfit returns why a node should not lead, and the node that should; empty: it may lead, or no
// other node that answered is fit. ahead says by how much the clock of each of the others is ahead
// of that of the node. A node is fit whose disk has room, and whose clock is at most most away from
// the median of all clocks: the entries of a leader whose clock is ahead would stop its successor.
func Unfit(own *cluster.Shown, others []*cluster.Shown, ahead []time.Duration, most time.Duration) (reason, heir string) {
	clocks := slices.Sorted(slices.Values(append(slices.Clone(ahead), 0)))
	middle := len(clocks) / 2
	median := clocks[middle]
	if len(clocks)%2 == 0 {
		median = (clocks[middle-1] + clocks[middle]) / 2
	}
	switch {
	case median.Abs() > most:
		reason = fmt.Sprintf("its clock is %v from the median of the nodes", median.Abs().Round(time.Millisecond))
	case !own.Room:
		reason = "its disk has no room"
	default:
		return "", ""
	}
	size := uint64(0)
	for i, other := range others {
		if other.Room && (ahead[i]-median).Abs() <= most && (heir == "" || other.Size > size) {
			heir, size = other.Node, other.Size
		}
	}
	if heir == "" {
		return "", ""
	}
	return reason, heir
}
