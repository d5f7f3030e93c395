// Package hour counts what happens in a rolling hour, by the minute. The fold holds the counts of a
// principal to its quotas (REG-7). Times are in Unix milliseconds. An hour is the minute of its
// last instant and the 59 minutes before.
package hour

import (
	"math"

	"recoveryledger/coord/codec"
)

const (
	minuteMS = 60_000
	minutes  = 60
)

// Count counts over a rolling hour. The zero value has counted nothing.
type Count struct {
	minute int64 // the newest minute that is counted
	counts [minutes]uint32
}

// Add counts one more at an instant. The instant is not in a minute before that of the last Add.
func (c *Count) Add(at int64) {
	minute := at / minuteMS
	for range min(minute-c.minute, minutes) {
		c.minute++
		c.counts[c.minute%minutes] = 0
	}
	c.minute = minute // if it lies an hour ahead or more, every count is 0 now
	c.counts[minute%minutes]++
}

// at returns the count of a minute.
func (c *Count) at(minute int64) int64 {
	if minute < 0 || minute > c.minute || minute <= c.minute-minutes {
		return 0
	}
	return int64(c.counts[minute%minutes])
}

// Used returns the count of the hour that ends with the minute of now.
func (c *Count) Used(now int64) (used int64) {
	minute := now / minuteMS
	for m := minute - minutes + 1; m <= minute; m++ {
		used += c.at(m)
	}
	return used
}

// Wait returns 0 if one more at the instant now keeps within a limit. Else it returns the instant
// from which on one more would.
func (c *Count) Wait(now, limit int64) int64 {
	used := c.Used(now)
	if used < limit {
		return 0
	}
	minute := now / minuteMS
	for m := minute - minutes + 1; m < minute; m++ {
		if used -= c.at(m); used < limit {
			return (m + minutes) * minuteMS
		}
	}
	return (minute + minutes) * minuteMS
}

// Snapshot passes the count. No instant that it counts is after the latest.
func (c *Count) Snapshot(to *codec.Codec, latest uint64) {
	codec.Number(to, &c.minute, latest/minuteMS+1)
	for i := range c.counts {
		codec.Number(to, &c.counts[i], math.MaxUint32+1)
	}
}

// Last is when something happened last: 1 + its minute. The zero value says that it never happened.
type Last int64

// LastAt returns an instant as a Last.
func LastAt(at int64) Last { return Last(1 + at/minuteMS) }

// Wait returns 0 if nothing happened in the hour that ends with the minute of now. Else it returns
// the instant from which on that is so.
func (l Last) Wait(now int64) int64 {
	if free := (int64(l) - 1 + minutes) * minuteMS; l > 0 && free > now {
		return free
	}
	return 0
}
