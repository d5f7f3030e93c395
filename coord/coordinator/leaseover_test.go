package coordinator

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
)

// TestLeaseIsGivenUp has the holder say how its claim ended: the task fails, or is
// interrupted, at once and with the snapshot, once the log shows the execution that
// ended; what names no such execution waits for the end of the term.
func TestLeaseIsGivenUp(t *testing.T) {
	for code, want := range map[string]entry.TaskState{"oom": entry.TaskFailed, "interrupted": entry.TaskInterrupted, "elsewhere": entry.TaskInProgress} {
		s, at := leased(t)
		s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("a", "o#task", entry.TaskStart, "") }))
		run := func(progress entry.Progress) *entry.Execution {
			x := s.work("a", "run", "o#task", entry.EffectNone)
			x.Progress = progress
			return x
		}
		s.submit(1, "", s.Sign(run(entry.Started)))
		over := &entry.Snapshot{Exec: "a#run", Agent: "a", Status: "in_progress", StartedAt: 1, TakenAt: 2, Class: "crash", Code: code, ContextDigest: entry.Digest("hmac-sha256:" + strings.Repeat("0", 64))}
		if code == "elsewhere" {
			over.Exec = "a#other"
		}
		r := renewal(t, entry.Renewal{Iss: "a", Leases: []entry.Lease{{Task: "o#task", Epoch: 1}}, Session: s.c.leases.session, Seq: 1})
		r.Leases[0].Over = over
		message, err := r.PAE()
		must(t, err)
		r.Sig = ed25519.Sign(testlog.Private("a"), message)
		if _, err := s.renewOne(r); err != nil {
			t.Fatal(err)
		}
		s.sweep()
		s.taskIs(entry.TaskInProgress) // nothing shows it yet
		progress := entry.Failed
		if code == "interrupted" {
			progress = entry.Cancelled
		}
		s.submit(1, "", s.Sign(run(progress)))
		s.pass(at, lostPause)
		s.sweep()
		s.taskIs(want)
		s.pass(at, 90*time.Second)
		s.sweep()
		if want == entry.TaskInProgress {
			want = entry.TaskFailed
		}
		s.taskIs(want)
	}
}
