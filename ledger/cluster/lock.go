package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"recoveryledger/ledger/durable"
)

// ErrRuns reports files of etcd that a process has open.
var ErrRuns = errors.New("cluster: the files of etcd are in use")

// Lock takes the files of etcd in dir for this process, until it calls unlock or ends. The error is
// [ErrRuns] if another process has them. A node has them while it runs.
//
// The file of the lock lies beside the directory. etcd locks its database itself, but [Defragment]
// puts another file in its place: a node that waited for the lock of the first one would go on with
// a file that nobody finds any more.
func Lock(dir string) (unlock func() error, err error) {
	path := filepath.Clean(dir) + ".lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: lock: %w", err)
	}
	held, err := durable.Lock(f)
	if err == nil && !held {
		err = fmt.Errorf("%w: another process has locked %s", ErrRuns, path)
	}
	if err == nil {
		err = tidy(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// tidy removes what a killed [Defragment] has left, which is as large as the database at most.
func tidy(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "member", "snap", "db.tmp.*"))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

const (
	lockEvery = 50 * time.Millisecond
	lockMax   = time.Minute // for a file of some GiB to be made smaller
)

// lock waits for the files of etcd, which [Defragment] may have for a while.
func (n *Node) lock() (unlock func() error, err error) {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for began, told := time.Now(), false; ; <-tick.C {
		unlock, err := Lock(n.cfg.Dir)
		if !errors.Is(err, ErrRuns) || time.Since(began) > lockMax {
			return unlock, err
		}
		if !told {
			n.cfg.Logger.Warn("this node waits for the files of etcd", "reason", err.Error())
		}
		told = true
	}
}
