package node

import (
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api/metrics"
	"recoveryledger/ledger/durable"
)

// The results of the last checks of a data directory, and of its last backup, stand in DIR/checks,
// so that a running ledger can tell of them.

const checksName = "checks"

func checkPath(dir, check string) string { return filepath.Join(dir, checksName, check+".json") }

// NoteCheck keeps the result of a check of a data directory, fsck or audit. The ledger may run as
// another user than the check, and reads the note; who may not enter the data directory cannot.
func NoteCheck(dir, check string, entries uint64, sound bool) error {
	content, err := json.Marshal(metrics.Checked{At: time.Now().UnixMilli(), Sound: sound, Entries: entries})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(checkPath(dir, check)), 0o755); err != nil {
		return err
	}
	return durable.Write(checkPath(dir, check), append(content, '\n'), 0o644)
}

const backupCheck = "backup"

// NoteBackup keeps that a data directory has a whole backup of its first entries, as [NoteCheck]
// keeps a result.
func NoteBackup(dir string, entries uint64) error {
	return NoteCheck(dir, backupCheck, entries, true)
}

// lastBackup returns when the data directory was last backed up, and how many entries the backup
// has; nil: there is no note that can be read.
func (n *Node) lastBackup() *metrics.Checked { return n.lastCheck(backupCheck) }

// lastCheck returns the result of the last check of the data directory; nil: there is none that can
// be read.
func (n *Node) lastCheck(check string) *metrics.Checked {
	content, err := os.ReadFile(checkPath(n.Dir, check))
	if err != nil {
		return nil
	}
	found := new(metrics.Checked)
	if json.Unmarshal(content, found) != nil {
		return nil
	}
	return found
}

// Show shows the log, its anchor, its disk, its checks, its last backup and its build in metrics.
func (n *Node) Show(m *metrics.Metrics, version, revision string) {
	m.Disk(n.Database(), n.reserve)
	m.Anchor(n.Anchor, n.Log, n.Origin)
	m.Checks(n.lastCheck)
	m.Backup(n.lastBackup)
	m.Build(version, revision)
	m.Ledger(n.Log, n.Replica)
}
