package consoles

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"recoveryledger/api/console"
	"recoveryledger/api/console/lab"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// Lab returns the lab of a console. runs is the directory of its --runs; empty: there is none.
// build is the version of the program. clean removes what people uploaded.
func Lab(s *Source, runs, build string) (room *lab.Lab, clean func(), err error) {
	if runs != "" {
		if info, err := os.Stat(runs); err != nil || !info.IsDir() {
			return nil, nil, fmt.Errorf("--runs %s: is not a directory that can be read", runs)
		}
	}
	uploads, err := os.MkdirTemp("", "arl-lab-")
	if err != nil {
		return nil, nil, err
	}
	clean = func() { _ = os.RemoveAll(uploads) } // in the system's directory of temporary files
	room, err = lab.New(&lab.Config{Runs: runs, Uploads: uploads, Workers: runtime.GOMAXPROCS(0), Build: build,
		Now: func() int64 { return time.Now().UnixMilli() }, InForce: s.policy})
	return room, clean, err
}

// policy returns the policy in force; nil: the log has none.
func (s *Source) policy() (p *entry.Policy) {
	s.Read(func(state *coord.State, _ console.Standing) { p, _ = state.Chain().Policy() })
	return p
}
