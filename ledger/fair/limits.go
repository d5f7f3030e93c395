package fair

import "time"

// Limits of gates and lanes.
const (
	// MaxPerKey is the number of checks that wait in a [Gate] for one key, and the number of
	// submissions that are in one narrow lane or wait for the lane.
	MaxPerKey = 2048
	// LaneWidth is the number of submissions of a sender under way in its narrow lane.
	LaneWidth = 4
	// LaneDebt is the number of refusals more than submissions taken from which on a lane
	// is narrow.
	LaneDebt = 16

	maxWaiting  = 8192                   // checks that wait in a gate, over all keys
	laneDebtMax = 32                     // the greatest debt: a sender that works off the difference to LaneDebt has a wide lane again
	laneHold    = 100 * time.Millisecond // for which a refusal keeps its room in a narrow lane: 40 refusals a second of one sender
)
