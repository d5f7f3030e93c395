package rollout

import (
	"slices"

	"recoveryledger/coord/codec"
)

// waitingMax bounds the cases of one arm that wait for a case of the other. A baseline with more
// cases than that goes uncompared until the canary follows: its cases are left out by their number
// alone, so that the comparison stays fair.
const waitingMax = 1024

// pairs compares each case of an arm with one of the other arm, in the order of the log.
type pairs[T any] struct {
	waiting []T  // cases of the arm that is ahead, the oldest first
	ahead   bool // whether that arm is the canary
}

// pair takes a case. It returns a case of each arm, or false while the case waits for another one.
func (p *pairs[T]) pair(one T, ofCanary bool) (canary, control T, ok bool) {
	if len(p.waiting) == 0 || p.ahead == ofCanary {
		if p.ahead = ofCanary; len(p.waiting) < waitingMax {
			p.waiting = append(p.waiting, one)
		}
		return canary, control, false
	}
	other := p.waiting[0]
	p.waiting = slices.Delete(p.waiting, 0, 1)
	if ofCanary {
		return one, other, true
	}
	return other, one, true
}

func (p *pairs[T]) snapshot(c *codec.Codec, each func(*T)) {
	c.Flag(&p.ahead)
	codec.List(c, &p.waiting, waitingMax, each)
}
