package node

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// A ledger that is opened in place collects garbage once there is as much as half of what is alive,
// but at least so many bytes. A small log leaves little alive: there, half of it came forty times a
// second, and collecting took a fifth of the processor time. A node of a cluster, which copies
// every batch from buffer to buffer on its way through etcd, collects at a fifth of what is alive,
// and at least at so many bytes.
const (
	garbageMin  = 64 << 20
	percentMin  = 50
	percentNode = 20
	percentMost = 800
)

// collector sets GOGC after each collection.
type collector struct {
	least   int // percent
	mu      sync.Mutex
	percent int
	stopped bool
}

// startCollector returns a collector that has set GOGC to least or more, and GOGC as it was before.
func startCollector(least int) (c *collector, before int) {
	c = &collector{least: least, percent: percentOf(alive(), least)}
	before = debug.SetGCPercent(c.percent)
	c.arm()
	return c, before
}

// arm has the next collection call tune: the collection finds that nothing refers to the object.
func (c *collector) arm() {
	type unused struct{ _ *byte } // a pointer: the runtime frees small objects without pointers in groups
	runtime.AddCleanup(new(unused), (*collector).tune, c)
}

func (c *collector) tune() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if percent := percentOf(alive(), c.least); percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	c.arm()
}

// stop leaves GOGC alone from now on.
func (c *collector) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// percentOf returns GOGC for so many bytes that are alive, in steps of ten, so that it seldom
// changes: a change stops all goroutines for a moment.
func percentOf(alive uint64, least int) int {
	percent := uint64(percentMost)
	if alive > 0 {
		percent = garbageMin * 100 / alive / 10 * 10
	}
	return min(max(int(min(percent, percentMost)), least), percentMost)
}

// alive returns the bytes that the last collection left.
func alive() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
