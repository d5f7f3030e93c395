package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/backend"
)

// Space is the room that etcd takes at a node.
type Space struct {
	Bytes int64 `json:"bytes"` // of the file
	Used  int64 `json:"used"`  // of Bytes: the rest is free inside of the file
	Quota int64 `json:"quota"` // of Bytes: a file that is larger takes no batch
	Full  bool  `json:"full"`  // whether etcd of some node was full, so that no node takes a batch until [Node.Disarm]
}

// Space returns the room that etcd takes at this node.
func (n *Node) Space(ctx context.Context) (*Space, error) {
	alarms, err := n.client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("cluster: read the alarms: %w", err)
	}
	b := n.etcd.Server.Backend()
	s := &Space{Bytes: b.Size(), Used: b.SizeInUse(), Quota: n.etcd.Server.Cfg.QuotaBackendBytes}
	for _, a := range alarms.Alarms {
		s.Full = s.Full || a.Alarm == etcdserverpb.AlarmType_NOSPACE
	}
	return s, nil
}

// Forget removes batches that the nodes keep, as the leader does each second, and waits until
// etcd has compacted. It writes nothing, so that a full etcd does it, too. The file becomes no
// smaller: [Defragment] does that.
func (n *Node) Forget(ctx context.Context) error {
	space, err := n.Space(ctx)
	if err != nil {
		return err
	}
	nodes, _, err := n.keeps(ctx)
	if err != nil {
		return err
	}
	own := nodes[n.key("n/"+n.cfg.Name)].Seq
	full := space.Full || space.Used > n.cfg.Quota/4
	least := lacking{}.least(time.Now(), nodes, len(n.etcd.Server.Cluster().Members()), own, full)
	if least == 0 {
		return nil
	}
	revision, err := n.drop(ctx, least)
	if err != nil {
		return err
	}
	return n.forgetHistory(ctx, revision, clientv3.WithCompactPhysical())
}

// Disarm has the nodes take batches again, behind a full etcd. One that is still full raises the
// alarm with the next batch.
func (n *Node) Disarm(ctx context.Context) error {
	if _, err := n.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("cluster: disarm: %w", err)
	}
	return nil
}

// lockTime is how long [Defragment] waits for the file of etcd.
const lockTime = time.Second

// Defragment makes the file of etcd in dir as small as what it holds. The node must not run: the
// error is [ErrRuns] if it does. It returns the bytes of the file before and behind that.
func Defragment(dir string) (before, after int64, err error) {
	path := filepath.Join(dir, "member", "snap", "db")
	if _, err := os.Stat(path); err != nil { // etcd would make one
		return 0, 0, fmt.Errorf("cluster: defragment: %w", err)
	}
	unlock, err := Lock(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("cluster: defragment: %w", err)
	}
	defer func() {
		if failed := recover(); failed != nil { // how etcd says that it cannot open a file
			err = fmt.Errorf("cluster: defragment %s: %v", path, failed)
		}
		err = errors.Join(err, unlock())
	}()
	b := backend.NewDefaultBackend(nil, path, backend.WithTimeout(lockTime))
	before = b.Size()
	err = b.Defrag()
	after = b.Size()
	return before, after, errors.Join(err, b.Close())
}
