package demo

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// own returns the path of an agent's file outside the agent's work.
func (d directory) own(p entry.Principal, file ...string) string {
	return d.path(append([]string{"agents", string(p)}, file...)...)
}

func (d directory) key(p entry.Principal) string      { return d.own(p, "agent.key") }
func (d directory) receipts(p entry.Principal) string { return d.own(p, "receipts.ndjson") }
func (d directory) board(r entry.Ref) string          { return d.path("board", fileName(r)+".json") }
func (d directory) queued(r entry.Ref) string         { return d.path("work", "mailer", "queue", fileName(r)) }

// fileName returns a reference in the form of a file name.
func fileName(r entry.Ref) string { return strings.ReplaceAll(string(r), "#", "-") }

func (d directory) secret(p entry.Principal) ([]byte, error) {
	text, err := os.ReadFile(d.key(p) + ".secret")
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(strings.TrimSpace(string(text)))
}

// files is the state of an agent in one workflow. A checkpoint can restore it.
type files string

func (d directory) files(p entry.Principal, wid entry.WorkflowID) files {
	return files(d.path("work", string(p), string(wid)))
}

func (f files) set(name, text string) error {
	return write(filepath.Join(string(f), name), []byte(text))
}

// snapshot returns the content of a checkpoint of the state.
func (f files) snapshot() ([]byte, error) {
	state := map[string]string{}
	names, err := namesIn(string(f))
	for _, name := range names {
		text, failed := os.ReadFile(filepath.Join(string(f), name))
		state[name], err = string(text), errors.Join(err, failed)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(state, json.Deterministic(true))
}

func (f files) restore(state []byte) error {
	var then map[string]string
	if err := json.Unmarshal(state, &then); err != nil {
		return err
	}
	now, err := namesIn(string(f))
	for _, name := range now {
		if _, keep := then[name]; !keep {
			err = errors.Join(err, os.Remove(filepath.Join(string(f), name)))
		}
	}
	for name, text := range then {
		err = errors.Join(err, f.set(name, text))
	}
	return err
}

// bookings has a file for each execution with a reservation, and a directory for each cancelled
// execution with a file for each idempotency key.
type bookings string

func (d directory) bookings() bookings { return bookings(d.path("work", string(booker))) }

// book reserves things for an execution.
func (b bookings) book(exec entry.Ref, pieces map[string]int) error {
	return writeJSON(filepath.Join(string(b), "booked", fileName(exec)), pieces)
}

func (b bookings) booked() ([]string, error) { return namesIn(filepath.Join(string(b), "booked")) }

// cancel cancels the reservation of an execution under a key. A second call is an error, because it
// would cancel the reservation twice.
func (b bookings) cancel(key string, exec, comp entry.Ref) error {
	dir := filepath.Join(string(b), "cancelled", fileName(exec))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.Create(filepath.Join(dir, key), []byte(comp), 0o600)
}

// cancelled returns the keys under which an execution was cancelled.
func (b bookings) cancelled(exec entry.Ref) ([]string, error) {
	return namesIn(filepath.Join(string(b), "cancelled", fileName(exec)))
}

// namesIn returns the names of the files in a directory. A missing directory has no files.
func namesIn(dir string) (names []string, err error) {
	list, err := os.ReadDir(dir)
	for _, file := range list {
		names = append(names, file.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}
