package metrics

import (
	"sync"
	"time"
)

// ledgerKeys are the keys that a ledger signs with, and that of the engine whose attempts it
// writes.
var ledgerKeys = []string{"ledger", "coordinator", "engine"}

// away knows since when each key in a KMS has not signed.
type away struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// KeyUsed counts a signature that a KMS was asked for. key is one of [ledgerKeys], and err says
// why there is no signature.
func (m *Metrics) KeyUsed(key string, took time.Duration, err error) {
	m.histogram("arl_key_seconds", key).Observe(took.Seconds())
	m.away.mu.Lock()
	defer m.away.mu.Unlock()
	if err == nil {
		delete(m.away.since, key)
		return
	}
	m.counter("arl_key_failures_total", key).Inc()
	if m.away.since == nil {
		m.away.since = map[string]time.Time{}
	}
	if m.away.since[key].IsZero() {
		m.away.since[key] = time.Now()
	}
}

func (a *away) read(emit emit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range ledgerKeys {
		seconds := 0.0
		if since, is := a.since[key]; is {
			seconds = time.Since(since).Seconds()
		}
		emit("arl_key_away_seconds", seconds, key)
	}
}
