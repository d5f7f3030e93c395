// Package overfill fills the etcd of a cluster in spite of what the nodes do against that.
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package overfill

import (
	"context"
	"errors"
	"strings"

	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/site"
)

// Quota is the least quota of etcd, in bytes.
const Quota = 8 << 20

// writeSize is how many bytes are written at once.
const writeSize = 3 << 19

// Etcd runs the etcd of a node that does not run, and has it write what no node writes, until etcd
// has reached its quota. data is the data directory of the node.
func Etcd(ctx context.Context, data string) error {
	s, err := site.Load(data)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	n, err := cluster.Open(&cluster.Config{Dir: s.EtcdDir(), Name: s.Name, Members: s.Members, Joins: s.Joined, Listen: s.EtcdListen,
		Peer: s.Peer, CertFile: s.CertFile(), KeyFile: s.KeyFile(), CAFile: s.CAFile(), Origin: s.Origin, Incarnation: s.Incarnation,
		Quota: Quota, Fatal: func(err error) { failed <- err; select {} }})
	if err != nil {
		return err
	}
	n.StepAside(true)
	n.Show(strings.Repeat("x", writeSize))
	for full := false; !full && err == nil; {
		_, _, added := n.Add(ctx, s.Name, cluster.Contact{}) // which tells of this node first
		full = added != nil && strings.Contains(added.Error(), "space exceeded")
		if !full && !errors.Is(added, cluster.ErrName) && ctx.Err() != nil {
			err = errors.Join(ctx.Err(), added)
		}
	}
	if len(failed) > 0 {
		return <-failed // etcd cannot go on, so it is not closed
	}
	return errors.Join(err, n.Close())
}
