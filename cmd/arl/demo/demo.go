// Package demo is the tour of the ledger: a server, agents, a monitor and two approvers, each a
// process of its own, work, fail and roll back on this machine. Nothing is acted: the agents write
// files and send mail, they undo only what [recoveryledger/api/client/agent] has verified, and in
// the end all that they did is compared with what the log says.
//
//	arl demo                the conductor: starts and ends the others, shows what happens, checks it;
//	│                       a mail gateway: what it has taken cannot be called back
//	├ arl demo ledger       arl serve: the ledger with its coordinator
//	├ arl demo agent NAME   an agent, or the monitor
//	└ arl incident approve  an approver, twice
//
// The conductor decides nothing and undoes nothing. It has everybody enrolled, and learns what
// happens from the log and from lines that its children print.
//
// All files are in one directory:
//
//	home/        ARL_HOME of the operator: profile and keys
//	ledger/      the log
//	feeds/       what suppliers say: the truth that outputs are held to
//	board/       what agents hand on, one JSON file an execution
//	agents/NAME  key, secret, receipts, checkpoints, and the state of its runtime
//	work/NAME    what the agent does: its files, bookings, a queue
//	sent/        mail that was sent
//	bundles/     what agents were told to undo, with all that proves it
//	logs/        what the processes said on stderr
package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/durable"
	"recoveryledger/verify"
)

// Config says how the demo runs. All but JSON is required.
type Config struct {
	Dir    string    // empty, or to be made; it is kept
	Binary string    // this program
	Out    io.Writer // the timeline
	JSON   bool      // one JSON object a line
}

// ErrDiffers reports that the world does not match the log.
var ErrDiffers = errors.New("demo: the world differs from the record")

// ErrDied reports a process that ended unexpectedly.
var ErrDied = errors.New("demo: a process ended")

// ErrTimeout reports that an expected event did not happen in time.
var ErrTimeout = errors.New("demo: too slow")

// limit is the time limit of the demo. The demo takes a few seconds; a busy machine takes longer.
const limit = 90 * time.Second

// stage has the settings of every process of the demo, in a file.
type stage struct {
	URL     string      `json:"url"`     // of the ledger
	Gateway string      `json:"gateway"` // URL of the mail gateway
	Head    string      `json:"head"`    // signed, as the conductor has seen it: the second source of a first contact
	Root    verify.Root `json:"root"`
}

// directory is where everything is.
type directory string

func (d directory) path(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

func (d directory) stage() (s stage, err error) {
	text, err := os.ReadFile(d.path("stage.json"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("demo: read stage: %w", err)
	}
	return s, nil
}

// write replaces a file, and makes its directory.
func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Write(path, content, 0o600)
}

// writeJSON is write of a value.
func writeJSON(path string, v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	return write(path, append(text, '\n'))
}
