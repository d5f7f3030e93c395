package verify

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// InParallel calls do with each number from 0 to n-1, on all processors, and returns when all calls
// have. The numbers are handed out in order.
func InParallel(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}
