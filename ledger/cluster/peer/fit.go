package peer

import (
	"fmt"
	"slices"
	"time"

	"recoveryledger/ledger/cluster"
)

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
