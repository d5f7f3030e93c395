// Package cluster replicates the order of a log on etcd, which runs in the process of each node. It
// implements [agreement.Sequencer].
//
// Safety rests on write transactions of etcd alone. A batch is stored only if the number before it
// is the last one, and if the term of the proposer is the newest:
//
//	Propose:  If   Value(h) == seq-1  and  ModRevision(t) == term.ID  and  CreateRevision(b/seq) == 0
//	          Then Put b/seq, Put h=seq      Else Get b/seq
//	Begin:    If   ModRevision(t) == seen  and  Value(m) == incarnation
//	          Then Put t=node, Get h         -> Term{revision, h}
//	Confirm:  If   ModRevision(t) == term.ID Then Put c=node
//
// The value of h is compared so that a second attempt means the same as the first. The revision of
// t is compared so that the next proposal of an old leader fails at once. Leases, locks and clocks
// decide nothing. The leader of Raft begins a term, which is advice.
//
// etcd holds a tail of the log, and is never backed up. What every node has on its disk is removed.
package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"golang.org/x/sync/singleflight"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// ErrWiped reports a node whose files of etcd are gone. It must not go on as the member that it
// was, which may have voted: a member that votes twice makes two orders.
var ErrWiped = errors.New("cluster: the files of etcd are gone")

// Config says how a node of a cluster is opened. All fields but Quota, Version, Ask, Fit and Logger
// are mandatory.
type Config struct {
	// Dir is where etcd keeps its files. It must not be restored from a backup, or copied.
	Dir string
	// Name names this node, and is one of Members.
	Name string
	// Members are the addresses at which the nodes reach one another when this node opens for the
	// first time: names to HOST:PORT. Later openings go by what etcd knows.
	Members map[string]string
	// Joins says that the cluster was there before the node, which was added to it ([Node.Add]).
	Joins bool
	// Listen is the address that the node listens on for the others: an IP and a port. Empty: its
	// address in Members.
	Listen string
	// Peer is the address of the node for what the nodes say to one another beside the order.
	Peer string
	// Version is that of the program, for people who upgrade the nodes.
	Version string
	// CertFile, KeyFile and CAFile are PEM files: the certificate of this node for its address,
	// its key, and the CA that signed the certificates of all nodes, and no others. The
	// certificate also names the address that the node calls the others from.
	CertFile, KeyFile, CAFile string
	// Origin is that of the log.
	Origin string
	// Incarnation is that of the cluster.
	Incarnation agreement.Incarnation
	// After is the number of the last batch that every node had when the cluster was made; 0: of
	// a log without entries. It is the same at every node, and stays.
	After uint64
	// Quota is how many bytes the database of etcd may have; it takes nothing more at its quota. 0:
	// 4 GiB. All nodes should have the same.
	Quota int64
	// Ask asks another node for its log, and for the root of a size. Nil: nobody is asked before
	// the first batch of a term.
	Ask func(ctx context.Context, c Contact, size uint64) (*Shown, error)
	// Fit returns why this node must not order the log, as the others have shown before the first
	// batch of a term. Nil, also as its result: it may.
	Fit func(others []*Shown) error
	// Fatal ends the process when the node cannot go on. It must not return.
	Fatal func(err error)
	// Logger takes the messages of etcd. Nil: no messages.
	Logger *slog.Logger
}

const (
	electionTime  = time.Second            // without a heartbeat, until another node wants to lead
	heartbeatTime = 100 * time.Millisecond // between two heartbeats of the leader
	quotaDefault  = 4 << 30                // bytes of etcd's database
	requestMax    = 2 << 20                // bytes of a request: a batch and its keys
)

// Node is a node of a cluster. It is an [agreement.Sequencer].
type Node struct {
	cfg    Config
	etcd   *embed.Etcd
	client *clientv3.Client
	prefix string
	trim   trim
	closed chan struct{} // closed: what runs for the node ends
	end    func()        // closes it, once
	halt   func()        // closes etcd, which can be closed once
	group  sync.WaitGroup

	url      atomic.Pointer[string]
	asks     singleflight.Group // whether the term is the newest
	standing atomic.Pointer[standing]
	vacant   atomic.Pointer[time.Time]     // since when Raft has no leader; nil: it has one
	aside    atomic.Bool                   // whether the node begins no term
	unled    atomic.Pointer[entry.Refusal] // while this node must not lead, and no other node is fit
	compared atomic.Int64                  // the term before whose first batch the other nodes were asked
	roomless atomic.Pointer[entry.Refusal] // while too few nodes have room
	format   atomic.Int64                  // of the cluster; 0: not known yet
}

// Open starts the node. It does not wait for the other nodes. It waits for a minute at most for
// another process that has the files of etcd. The error is [ErrWiped], [ErrRuns], or that of a
// configuration that cannot be used.
func Open(c *Config) (*Node, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	n := &Node{cfg: *c, prefix: prefixOf(c.Origin), trim: trim{lacking: lacking{}}}
	n.cfg.Quota = cmp.Or(n.cfg.Quota, quotaDefault)
	if n.cfg.Logger == nil {
		n.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	unlock, err := n.lock()
	if err != nil {
		return nil, err
	}
	if err := n.checkWiped(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	server, err := embed.StartEtcd(n.embedded())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: start etcd in %s: %w", c.Dir, err), unlock())
	}
	if err := durable.Write(n.note(), []byte(n.cfg.Name+"\n"), 0o600); err != nil {
		server.Close()
		return nil, errors.Join(err, unlock())
	}
	n.etcd, n.client = server, v3client.New(server.Server)
	reads := &reader{KV: n.client.KV}
	n.client.KV = reads
	n.closed = make(chan struct{})
	n.end, n.halt = sync.OnceFunc(func() { close(n.closed) }), sync.OnceFunc(func() {
		reads.end()
		server.Close()
		_ = unlock() // nothing was written
	})
	n.group.Go(n.tend)
	n.group.Go(func() {
		err := errors.New("it has stopped, as the etcd of a node does that was removed from the cluster")
		select {
		case failed, open := <-server.Err():
			if open {
				err = failed
			}
		case <-server.Server.StopNotify():
		case <-n.closed:
		}
		select {
		case <-n.closed:
		default:
			n.cfg.Fatal(fmt.Errorf("cluster: etcd: %w", err))
		}
	})
	return n, nil
}

func (c *Config) check() error {
	switch address, ok := c.Members[c.Name]; {
	case !ok || address == "":
		return fmt.Errorf("cluster: node %q is none of the members %s", c.Name, strings.Join(slices.Sorted(maps.Keys(c.Members)), ", "))
	case c.Dir == "" || c.CertFile == "" || c.KeyFile == "" || c.CAFile == "" || c.Origin == "" || c.Fatal == nil || c.Incarnation == agreement.Incarnation{}:
		return errors.New("cluster: Dir, CertFile, KeyFile, CAFile, Origin, Incarnation and Fatal are required")
	}
	return nil
}

// prefixOf begins the keys of a log.
func prefixOf(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return "/arl/1/" + hex.EncodeToString(sum[:16]) + "/"
}

// note is the file that says that etcd has been in Dir. It lies beside the directory.
func (n *Node) note() string { return filepath.Clean(n.cfg.Dir) + ".started" }

// checkWiped refuses to begin anew where etcd has been.
func (n *Node) checkWiped() error {
	_, noted := os.Stat(n.note())
	_, there := os.Stat(filepath.Join(n.cfg.Dir, "member"))
	if noted == nil && errors.Is(there, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s, though %s says that they were there: the node may have voted as a member of the cluster, so it must not begin again under its name",
			ErrWiped, n.cfg.Dir, n.note())
	}
	return nil
}

// embedded returns the configuration of etcd.
func (n *Node) embedded() *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = n.cfg.Name, n.cfg.Dir
	own := n.cfg.Members[n.cfg.Name]
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peerURL(cmp.Or(n.cfg.Listen, own))}, []url.URL{peerURL(own)}
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenClientHttpUrls = nil, nil, nil
	var members []string
	for name, address := range n.cfg.Members {
		u := peerURL(address)
		members = append(members, name+"="+u.String())
	}
	slices.Sort(members)
	c.InitialCluster, c.ClusterState = strings.Join(members, ","), embed.ClusterStateFlagNew
	if n.cfg.Joins {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	c.InitialClusterToken = fmt.Sprintf("%x", n.cfg.Incarnation)
	c.PeerTLSInfo.CertFile, c.PeerTLSInfo.KeyFile, c.PeerTLSInfo.TrustedCAFile = n.cfg.CertFile, n.cfg.KeyFile, n.cfg.CAFile
	c.PeerTLSInfo.ClientCertAuth = true
	c.TickMs, c.ElectionMs = uint(heartbeatTime.Milliseconds()), uint(electionTime.Milliseconds())
	c.QuotaBackendBytes, c.MaxRequestBytes = n.cfg.Quota, requestMax
	c.SnapshotCount, c.SnapshotCatchUpEntries = 100, 50
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(n.cfg.Logger, n.cfg.Fatal))
	return c
}

func peerURL(address string) url.URL { return url.URL{Scheme: "https", Host: address} }

// Abandon ends the node, and waits for nothing: another node leads, while the process goes on that
// ran this one.
func (n *Node) Abandon() {
	n.end()
	go n.halt() // hands the lead over
}

// Close ends the node.
func (n *Node) Close() error {
	n.end()
	err := n.client.Close()
	n.halt()
	n.group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil // the client has no connection, which its Close reports so
	}
	return err
}

// errEnded is the error of a read from an etcd that has ended.
var errEnded = errors.New("cluster: this node has ended")

// reader reads from etcd until it ends. An etcd that has ended panics if it is read from; it
// refuses writes by itself.
type reader struct {
	clientv3.KV
	mu    sync.RWMutex // held by reads that are under way
	ended bool
}

// Get implements [clientv3.KV].
func (r *reader) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.ended {
		return nil, errEnded
	}
	return r.KV.Get(ctx, key, options...)
}

// end waits for the reads that are under way, and allows no other.
func (r *reader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// StepAside says whether this node begins no term, and gives up the one that it has.
func (n *Node) StepAside(aside bool) { n.aside.Store(aside) }

// Unled says why no node is fit to order the log, if this node leads Raft; empty: one is.
func (n *Node) Unled(why string) {
	if why == "" {
		n.unled.Store(nil)
		return
	}
	n.unled.Store(entry.Refuse(entry.NotReady, "", "%s does not order the log, and no other node is fit to: %s", n.cfg.Name, why).
		WithRemedy("set the clock of this node, or make another node fit: the cluster then takes entries again without a restart"))
}

// Leads reports whether this node leads Raft.
func (n *Node) Leads() bool { return n.etcd.Server.Leader() == n.etcd.Server.MemberID() }

// Name returns the name of this node.
func (n *Node) Name() string { return n.cfg.Name }

// idOf returns what etcd calls the node of an address; 0: none is there.
func (n *Node) idOf(address string) uint64 {
	u := peerURL(address)
	for _, m := range n.etcd.Server.Cluster().Members() {
		if slices.Contains(m.PeerURLs, u.String()) {
			return uint64(m.ID)
		}
	}
	return 0
}
