// Package demo is the tour of the ledger. A server, agents, a monitor and two approvers work, fail
// and roll back on this machine, each in a process of its own. Nothing is simulated: the agents
// write files and send mail, and undo only members that [recoveryledger/api/client/agent] has
// verified. In the end the demo compares the effects of the agents with the log.
//
//	arl demo                the conductor: starts and ends the others, shows and checks the events;
//	│                       a mail gateway: mail that it has taken cannot be called back
//	├ arl demo ledger       arl serve: the ledger with its coordinator
//	├ arl demo agent NAME   an agent, or the monitor
//	└ arl incident approve  an approver, twice
//
// The conductor decides nothing and undoes nothing. It enrols the principals, and reads the events
// from the log and from the lines that its children print.
//
// All files are in one directory:
//
//	home/        ARL_HOME of the operator: profile and keys
//	ledger/      the log
//	feeds/       files of the suppliers: outputs are checked against them
//	board/       outputs that agents hand on, one JSON file an execution
//	agents/NAME  key, secret, receipts, checkpoints, and the state of its runtime
//	work/NAME    effects of the agent: its files, bookings, a queue
//	sent/        mail that was sent
//	bundles/     bundles with the members that agents had to undo, and all proofs
//	logs/        stderr of the processes
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

// Config says how the demo runs. All fields but JSON are required.
type Config struct {
	Dir    string    // an empty or a new directory; it is kept
	Binary string    // this program
	Out    io.Writer // the timeline
	JSON   bool      // one JSON object a line
}

// ErrDiffers reports that the world does not match the log.
var ErrDiffers = errors.New("demo: the world differs from the record")

// errDied reports a process that ended unexpectedly.
var errDied = errors.New("demo: a process ended")

// ErrTimeout reports that an expected event did not happen in time.
var ErrTimeout = errors.New("demo: too slow")

// limit is the time limit of the demo. The demo takes a few seconds; a busy machine takes longer.
const limit = 4 * time.Minute

// stage has the settings of all processes of the demo. It is kept in a file.
type stage struct {
	URL     string      `json:"url"`     // of the ledger
	Gateway string      `json:"gateway"` // URL of the mail gateway
	Head    string      `json:"head"`    // signed tree head of the conductor: the second source of a first contact
	Root    verify.Root `json:"root"`
}

// directory is the directory of all files of the demo.
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

// write replaces a file. It makes the directory of the file if necessary.
func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Write(path, content, 0o600)
}

// writeJSON writes a value as JSON, as write does.
func writeJSON(path string, v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	return write(path, append(text, '\n'))
}
