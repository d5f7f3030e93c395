package metrics

import (
	"runtime"
	"time"

	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
	"recoveryledger/ledger/witness"
)

// Ledger shows a log and the coordinator's replica, and counts the entries that are committed from
// now on. Only the first call counts.
func (m *Metrics) Ledger(l *ledger.Log, c *coordinator.Replica) {
	first := m.add("ledger", func(emit emit) {
		emit("arl_log_size", float64(l.Size()))
		emit("arl_log_head_age_seconds", age(l, l.Size()-1))
		emit("arl_clock_offset_seconds", l.ClockOffset().Seconds())
		emit("arl_fold_lag_entries", float64(c.Behind()))
		emit("arl_snapshot_lag_entries", float64(l.SnapshotLag()))
		emit("arl_queue_depth", float64(l.Waiting()))
		m.readState(c, l.Now(), emit)
		held, lost := c.Leases().Counts()
		emit("arl_leases", float64(held))
		emit("arl_leases_lost_total", float64(lost))
	})
	if first {
		m.opened(l)
		c.Watch(m.follower.take)
	}
}

// age returns for how many seconds the entry at index has been in the log; 0: there is no such
// entry.
func age(l *ledger.Log, index uint64) float64 {
	e, err := l.Entry(index)
	if err != nil {
		return 0 // the log is empty, or ends before the entry
	}
	return float64(max(0, l.Now()-e.RegisteredAt)) / 1000
}

// readState emits what follows from the fold, of one state.
func (m *Metrics) readState(c *coordinator.Replica, now int64, emit emit) {
	c.Read(func(s *coord.State) {
		census := s.Census(now)
		for _, state := range entry.IncidentStates() {
			emit("arl_incidents", float64(census.States[state]), string(state))
		}
		emit("arl_incidents_not_fenced", float64(census.NotFenced))
		emit("arl_incidents_unacknowledged", float64(census.Unacknowledged))
		emit("arl_approvals_waiting", float64(census.Waiting))
		oldest := 0.0
		if census.Waiting > 0 {
			oldest = float64(max(0, now-census.WaitingSince)) / 1000
		}
		emit("arl_approvals_oldest_seconds", oldest)
		tasks := s.TaskCounts()
		for _, state := range entry.TaskStates() {
			emit("arl_tasks", float64(tasks[state]), string(state))
		}
		emit("arl_task_retries_total", float64(s.TaskRetries()))
		emit("arl_tasks_unassignable", float64(unassignable(s, m.follower.rules, now)))
	})
}

// tasksScanned is how many of the newest tasks are looked at for those that no agent can get: a
// read of the metrics must not take longer as the log grows.
const tasksScanned = 1024

// unassignable counts the tasks that wait for a claim and that no agent can get.
func unassignable(s *coord.State, rules *coord.Rules, now int64) (n int) {
	counts := s.TaskCounts()
	if counts[entry.TaskCreated]+counts[entry.TaskFailed]+counts[entry.TaskInterrupted] == 0 {
		return 0
	}
	views := s.Tasks(0, tasksScanned)
	for i := range views {
		if s.Consult(&views[i], now, rules); views[i].Unassignable {
			n++
		}
	}
	return n
}

// Anchor shows the anchor file of a log, and the log's origin.
func (m *Metrics) Anchor(path string, l *ledger.Log, origin string) {
	m.add("anchor", func(emit emit) {
		emit("arl_log_info", 1, origin)
		head, err := ledger.Anchored(path, origin)
		if err != nil {
			return // arl doctor warns of absent series; a lag of 0 would say that the anchor covers the log
		}
		size := l.Size()
		emit("arl_anchor_lag_entries", float64(size-min(size, head.Size)))
		emit("arl_anchor_lag_seconds", age(l, head.Size))
	})
}

// checks are the ways in which a data directory is checked.
var checks = []string{"fsck", "audit"}

// Checked is the result of a check of a data directory.
type Checked struct {
	At      int64  `json:"at"` // Unix milliseconds
	Sound   bool   `json:"sound"`
	Entries uint64 `json:"entries"`
}

// Checks shows the last checks of a data directory. last returns the result of one, by its name;
// nil: there was none.
func (m *Metrics) Checks(last func(check string) *Checked) {
	m.add("checks", func(emit emit) {
		for _, check := range checks {
			found := last(check)
			if found == nil {
				found = &Checked{}
			}
			emit("arl_checked_timestamp_seconds", float64(found.At)/1000, check)
			emit("arl_checked_sound", truth(found.Sound), check)
			emit("arl_checked_entries", float64(found.Entries), check)
		}
	})
}

// Backup shows the last whole backup of a data directory. last returns nil if there was none.
func (m *Metrics) Backup(last func() *Checked) {
	m.add("backup", func(emit emit) {
		found := last()
		if found == nil {
			found = &Checked{}
		}
		emit("arl_backup_timestamp_seconds", float64(found.At)/1000)
		emit("arl_backup_entries", float64(found.Entries))
	})
}

// truth is 1 for what is so, and 0 for what is not.
func truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// Notifications shows how late the endpoints of notifications are.
func (m *Metrics) Notifications(late func() map[string]time.Duration) {
	m.add("notifications", func(emit emit) {
		for endpoint, time := range late() {
			emit("arl_notifications_late_seconds", time.Seconds(), endpoint)
		}
	})
}

// Publishing shows the size of the tree head that is published, and how late its place is.
func (m *Metrics) Publishing(status func() (size uint64, late time.Duration)) {
	m.add("publishing", func(emit emit) {
		size, late := status()
		emit("arl_published_size", float64(size))
		emit("arl_published_late_seconds", late.Seconds())
	})
}

// Disk shows the free space in a directory, the reserve in bytes, and whether writes are taken.
func (m *Metrics) Disk(dir string, reserve uint64) {
	m.add("disk", func(emit emit) {
		emit("arl_disk_reserve_bytes", float64(reserve))
		if free, err := disk.Free(dir); err == nil {
			emit("arl_disk_free_bytes", float64(free))
		}
		if closed, err := disk.ReadOnly(dir); err == nil {
			emit("arl_disk_read_only", truth(closed))
		}
	})
}

// Build shows which build this is.
func (m *Metrics) Build(version, revision string) {
	m.add("build", func(emit emit) { emit("arl_build_info", 1, version, revision, runtime.Version()) })
}

// Lanes shows the narrow lanes of clients.
func (m *Metrics) Lanes(state func() fair.LaneState) {
	m.add("lanes", func(emit emit) {
		lanes := state()
		emit("arl_lanes_narrow", float64(lanes.Narrow))
		emit("arl_lanes_waiting", float64(lanes.Inside))
	})
}

// Index shows how far an index is.
func (m *Metrics) Index(x *complete.Index) {
	m.add("index", func(emit emit) {
		status, stopped := x.Status(), 0.0
		if status.Stopped != "" {
			stopped = 1
		}
		emit("arl_index_size", float64(status.Size))
		emit("arl_index_lag", float64(status.Lag))
		emit("arl_index_subjects", float64(status.Subjects))
		emit("arl_index_stopped", stopped)
	})
}

// Witnesses shows the progress of the witnesses. now reads the wall clock.
func (m *Metrics) Witnesses(r *witness.Rounds, now func() time.Time) {
	m.add("witnesses", func(emit emit) {
		head, since, named := r.Witnessed()
		emit("arl_witnessed_size", float64(head.Size))
		old, failing := 0.0, 0
		if named {
			old = now().Sub(time.Unix(since, 0)).Seconds()
		}
		emit("arl_witnessed_age_seconds", old)
		seen := map[string]bool{} // a witness may have a former key
		for _, state := range r.States() {
			if state.Failed != "" && !state.Former {
				failing++
			}
			if !seen[state.Name] {
				seen[state.Name] = true
				emit("arl_cosignatures_total", float64(state.Cosigned), state.Name, "cosigned")
				emit("arl_cosignatures_total", float64(state.Failures), state.Name, "failed")
			}
		}
		emit("arl_witnesses_failing", float64(failing))
	})
}
