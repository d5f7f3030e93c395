package ledger

// Halt ends Run at once, and returns when nothing is signed any more: no entry, and no
// tree head. What waits to be registered is answered [ErrStopped]; reads go on. It is for
// a log that was found forked, or without entries that it once had: each head more would
// be of a second history. It may be called once.
func (l *Log) Halt() {
	close(l.halted)
	l.published.wait()
	if l.running.Load() {
		<-l.stopped
	}
}

// over reports whether done is closed.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
