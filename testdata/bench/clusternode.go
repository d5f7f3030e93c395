package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/ledger/keys"
)

// order is what the benchmark says to a process that is a node.
type order struct {
	Do         string // enrol, lead, sign, load, reach or usage
	To         string // lead: the node that is to lead
	Entries    int    // sign: how many entries are made and signed beforehand
	Submitters int    // load: at a time, for Time at most
	Time       time.Duration
	Size       uint64 // reach: of the log that the node waits for
}

// report is the answer of the process.
type report struct {
	Err     string
	Leads   bool // whether the process orders the log
	Size    uint64
	Done    int64         // entries that load registered
	Elapsed time.Duration // of load
	P50     float64       // µs, of load with one submitter
	CPU     time.Duration // processor time of the process until now
}

// worker is a process that is a single ledger, or a node of a cluster.
type worker struct {
	*ledgerUnderTest
	node   *cluster.Node
	signed int // entries that were signed so far
	next   func() []byte
}

// runNode is the node of dir, with in-process submitters, until stdin ends.
func runNode(dir string) error {
	ctx := context.Background()
	ledgerKeys, err := keys.LoadLedger(filepath.Join(dir, "keys"), nil)
	if err != nil {
		return err
	}
	w := new(worker)
	var with settings
	s, err := site.Load(dir)
	if err != nil && !errors.Is(err, site.ErrNone) {
		return err
	}
	if err == nil {
		w.node, err = cluster.Open(&cluster.Config{
			Dir: s.EtcdDir(), Name: s.Name, Members: s.Members, Listen: s.EtcdListen, Peer: s.Peer,
			CertFile: s.CertFile(), KeyFile: s.KeyFile(), CAFile: s.CAFile(), Origin: s.Origin, Incarnation: s.Incarnation,
			Fatal: func(err error) { log.Fatal(err) },
		})
		if err != nil {
			return err
		}
		w.node.Show("http://" + s.Peer) // so that others can name it as the next leader
		with.cluster = &ledger.Cluster{Member: agreement.Member{Sequencer: w.node, Secret: s.Secret, Incarnation: s.Incarnation}}
	}
	if w.ledgerUnderTest, err = openWith(dir, ledgerKeys[0], with); err != nil {
		return err
	}
	w.run(ctx)
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		r, err := w.obey(ctx, o)
		if err != nil {
			r.Err = fmt.Sprintf("%s: %v", o.Do, err)
		}
		r.Size, r.CPU, r.Leads = w.Size(), cpuTime(), w.Leads() && (w.node == nil || w.node.Leads())
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	err = w.stop()
	if w.node != nil {
		err = errors.Join(err, w.node.Close())
	}
	return err
}

func (w *worker) obey(ctx context.Context, o order) (r report, err error) {
	switch o.Do {
	case "enrol":
		return r, w.enrol(ctx)
	case "lead":
		return r, w.node.HandOver(ctx, o.To)
	case "sign":
		w.next, err = w.envelopesFrom(w.signed, o.Entries)
		w.signed += o.Entries
	case "reach":
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return r, w.Wait(ctx, o.Size)
	case "load":
		if o.Submitters > 1 {
			r.Done, r.Elapsed, err = closedLoop(o.Submitters, o.Time, w.next, func(envelope []byte) error { return w.submit(ctx, envelope) })
			return r, err
		}
		r.P50, err = latency(o.Time, func() (bool, error) {
			envelope := w.next()
			if envelope == nil {
				return false, nil
			}
			return true, w.submit(ctx, envelope)
		})
	}
	return r, err
}
