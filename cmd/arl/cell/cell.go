// Package cell makes arl serve a node of a cluster, and has the commands about a cluster.
package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"

	"recoveryledger/api/server"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
)

// quotaLeast is what etcd needs for some whole batches, in bytes.
const quotaLeast = 8 << 20

// firstName is that of the first node of a cluster.
const firstName = "n1"

// Serving makes a ledger that is served a node of a cluster.
type Serving struct {
	on                              bool
	join, name                      string
	peerListen, advertise, etcdAddr string
	quota                           int64 // bytes of etcd's database
	flags                           *pflag.FlagSet

	// Agreed hears what becomes of offered batches ([agreement.Observe]).
	Agreed func(took time.Duration, err error)
	// Version is that of the program.
	Version string

	site   *site.Site
	node   *cluster.Node
	peers  net.Listener
	router *peer.Router
	port   *peer.Server
	ports  chan error   // gets how the port for the other nodes has ended
	held   func() error // lets the port for etcd go, which is held until etcd has it; nil: it is not held
	client *peer.Client
	logger *slog.Logger
	fatal  func(error)
	noted  []known
	rooms  peer.Rooms
	judged peer.Fitness                              // of the last round
	show   func(size uint64) (*cluster.Shown, error) // the log of the node, and the root of a size

	// nowRuns and nowServed are node and port, for [Serving.Abandon], which any goroutine calls.
	nowRuns   atomic.Pointer[cluster.Node]
	nowServed atomic.Pointer[peer.Server]
}

// known is a node that another one knew.
type known struct {
	Name string `json:"name"`
	Peer string `json:"peer"` // HOST:PORT
}

// Register adds the flags.
func (s *Serving) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&s.on, "cluster", false, "be a node of a cluster: found it, or go on (docs/cluster.md)")
	flags.StringVar(&s.join, "join", "", "token of arl cluster token, with which a new node joins a cluster")
	flags.StringVar(&s.name, "node", "", "name of a new node (default: n1, or the next free one)")
	flags.StringVar(&s.peerListen, "peer-listen", "", "address for other nodes, of a new node (default "+peerDefault+")")
	flags.StringVar(&s.advertise, "peer-advertise", "", "address at which other nodes find --peer-listen (default: the same)")
	flags.StringVar(&s.etcdAddr, "etcd-listen", "", "address for etcd of other nodes, of a new node (default "+etcdDefault+")")
	flags.Int64Var(&s.quota, "etcd-quota", 4<<30, "bytes that etcd's database may have; entries are refused from three quarters on")
	s.flags = flags
}

// reserveDefault is the reserve of a node, whose etcd writes to the same disk, in bytes.
const reserveDefault = 1 << 30

// Reserve returns the free disk space in bytes below which entries are refused. given is the value
// of the flag.
func (s *Serving) Reserve(given uint64) uint64 {
	if s.on && !s.flags.Changed("reserve") {
		return reserveDefault
	}
	return given
}

// On reports whether the ledger is a node of a cluster.
func (s *Serving) On() bool { return s.on }

// Check checks the command line alone.
func (s *Serving) Check() error {
	if s.on {
		if s.join != "" {
			if _, err := site.ParseToken(s.join); err != nil {
				return exit.Usagef("--join: %w", err)
			}
		}
		if strings.Trim(s.name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" || len(s.name) > 63 {
			return exit.Usagef("--node %.70q: want letters, digits, dots, dashes and underscores, 63 at most", s.name)
		}
		if s.quota < quotaLeast {
			return exit.Usagef("--etcd-quota %d: want %d or more", s.quota, quotaLeast)
		}
		return nil
	}
	if s.join != "" || s.name != "" || s.peerListen != "" || s.advertise != "" || s.etcdAddr != "" {
		return exit.Usagef("--join, --node, --peer-listen, --peer-advertise and --etcd-listen are for a node of a cluster: pass --cluster too")
	}
	return nil
}

// Begin reads which node the data directory is, or has it join a cluster. url is the node's URL for
// clients.
func (s *Serving) Begin(ctx context.Context, data string, logger *slog.Logger) (err error) {
	if !s.on {
		return nil
	}
	s.logger = logger
	s.site, err = site.Load(data)
	switch {
	case err == nil && s.site.Left:
		return exit.With(exit.Conflict, fmt.Errorf("%s leaves its cluster: end that with arl cluster leave --data %s", data, data))
	case err == nil && s.site.Reseeds:
		return unended(s.site, data)
	case err == nil && s.join == "" && !s.site.Begun() && !s.site.Joined:
		return s.readdress(ctx)
	case err == nil && s.join == "":
		return s.listen(ctx)
	case err == nil && s.site.Begun():
		return exit.With(exit.Conflict, fmt.Errorf("--join: %s is node %s of a cluster already: leave --join out", data, s.site.Name))
	case err != nil && !errors.Is(err, site.ErrNone):
		return exit.With(exit.Config, err)
	case s.join == "" && site.Joins(data):
		return exit.Remedied(fmt.Sprintf("pass --join with a new token, or remove %s to found a cluster", site.Path(data)),
			exit.With(exit.Conflict, fmt.Errorf("%s was to join a cluster, and was not admitted", data)))
	case s.join == "":
		s.site = nil
		return nil // enter founds the cluster
	}
	return s.joinBy(ctx, data)
}

// joinBy joins the cluster of the token: it gets the certificates, the keys and a copy of the log.
func (s *Serving) joinBy(ctx context.Context, data string) error {
	token, err := site.ParseToken(s.join)
	if err != nil {
		return err
	}
	for _, name := range []string{"keys", "db"} {
		if _, err := os.Stat(filepath.Join(data, name)); err == nil && s.site == nil {
			return exit.With(exit.Conflict, fmt.Errorf("--join: %s has a ledger of its own, in %s: join with an empty directory", data, name))
		}
	}
	if s.site == nil {
		s.site = &site.Site{Dir: site.Path(data), Name: s.name}
	}
	if s.site.Addresses, err = s.addresses(ctx); err != nil {
		return err
	}
	request, err := s.site.Request()
	if err != nil {
		return err
	}
	admitted, err := peer.Join(ctx, token, &peer.Joining{
		Name: s.name, Request: request, Contact: cluster.Contact{Etcd: s.site.Etcd, Peer: s.site.Peer, Version: s.Version, Format: agreement.Newest()},
	})
	if err != nil {
		return joinError(err)
	}
	if err := s.site.Take(admitted); err != nil {
		return err
	}
	keys := filepath.Join(data, "keys")
	for _, name := range slices.Sorted(maps.Keys(admitted.Keys)) {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("--join: the cluster sent a key named %q", name)
		}
		path := filepath.Join(keys, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := durable.Write(path, admitted.Keys[name], 0o600); err != nil {
			return err
		}
	}
	return s.copyLog(ctx, token.Peer, data)
}

func joinError(err error) error {
	if r, ok := errors.AsType[*peer.Refused](err); ok && r.Status < http.StatusInternalServerError || errors.Is(err, site.ErrOther) {
		return exit.With(exit.Denied, fmt.Errorf("--join: %w", err))
	}
	return exit.With(exit.Unavailable, fmt.Errorf("--join: %w", err))
}

// copyLog takes a copy of the log from a node.
func (s *Serving) copyLog(ctx context.Context, from, data string) error {
	db, arriving := filepath.Join(data, "db"), filepath.Join(data, "db.arriving")
	for _, old := range []string{db, arriving} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	c, err := peer.NewClient(s.site)
	if err != nil {
		return err
	}
	s.logger.Info("joining: the log is copied", "from", from, "node", s.site.Name)
	if err := c.Copy(ctx, from, arriving); err != nil {
		return joinError(err)
	}
	if err := durable.Rename(arriving, db); err != nil {
		return err
	}
	s.site.Copied = true
	return s.site.Save()
}

// Hook is [node.Options.Cluster].
func (s *Serving) Hook() func(*node.Node, *ledger.Config) error {
	if !s.on {
		return nil
	}
	return s.enter
}

// enter opens the node, and makes config that of its log.
func (s *Serving) enter(n *node.Node, config *ledger.Config) (err error) {
	if s.site == nil {
		if err := s.found(n); err != nil {
			return err
		}
	}
	if s.site.Origin != n.Origin {
		return exit.With(exit.Config, fmt.Errorf("%s is a node of the cluster of %s, and the keys are those of %s", n.Dir, s.site.Origin, n.Origin))
	}
	if s.site.Joined && !s.site.Copied {
		return exit.With(exit.Config, fmt.Errorf("%s has no copy of the log yet: start the node with --join and a new token", n.Dir))
	}
	config.AcceptAnchor = config.AcceptAnchor || s.site.Joined && !s.site.Anchored // the log has come without one
	if !s.site.Begun() && !s.site.Joined {
		if err := s.begin(n, config); err != nil {
			return err
		}
	}
	if s.client, err = peer.NewClient(s.site); err != nil {
		return exit.With(exit.Config, err)
	}
	s.fatal = config.Fatal
	precheck := config.Precheck
	config.Precheck = func(e *entry.Entry) error {
		if err := precheck(e); err != nil {
			return err
		}
		return s.keysEverywhere(n, e)
	}
	ask := func(ctx context.Context, c cluster.Contact, size uint64) (*cluster.Shown, error) {
		return s.client.HeadBy(ctx, c.Peer, size, node.WallClock)
	}
	own := configOf(s.site, ask, config.Fatal, config.Logger)
	own.Quota, own.Version = s.quota, s.Version
	own.Fit = func(others []*cluster.Shown) error { return s.fit(n, others) }
	s.node, err = cluster.Open(own)
	if err = errors.Join(err, s.release()); err != nil {
		return opening(err)
	}
	s.nowRuns.Store(s.node)
	config.Cluster = &ledger.Cluster{
		Member: agreement.Member{Sequencer: agreement.Observe(s.node, s.Agreed), Secret: s.site.Secret, Incarnation: s.site.Incarnation,
			Unable: s.node.Unable, Format: s.node.Format},
		Revert: func() ledger.Fold { return n.Replica.Revert() },
	}
	n.Term = s.node.Term
	return nil
}

// configOf returns how the node of a site is opened.
func configOf(s *site.Site, ask func(context.Context, cluster.Contact, uint64) (*cluster.Shown, error), fatal func(error), logger *slog.Logger) *cluster.Config {
	return &cluster.Config{
		Dir: s.EtcdDir(), Name: s.Name, Members: s.Members, Joins: s.Joined, Listen: s.EtcdListen,
		Peer: s.Peer, CertFile: s.CertFile(), KeyFile: s.KeyFile(), CAFile: s.CAFile(),
		Origin: s.Origin, Incarnation: s.Incarnation, After: s.After, Ask: ask, Fatal: fatal, Logger: logger,
	}
}

// found makes the ledger the first node of a cluster.
func (s *Serving) found(n *node.Node) error {
	if err := ledger.NotInUse(n.Database()); errors.Is(err, ledger.ErrInUse) {
		return err // before anything is kept
	}
	at, err := s.addresses(context.Background())
	if err != nil {
		return err
	}
	if s.site, err = site.Found(n.Dir, n.Origin, cmp.Or(s.name, firstName), at); err != nil {
		return err
	}
	return s.site.Save()
}

// begin prepares the database of the first node, whose etcd has never run. Nothing was agreed on
// before that, so an interrupted start prepares again, behind what a single ledger registered
// meanwhile.
func (s *Serving) begin(n *node.Node, config *ledger.Config) error {
	single := *config
	single.Cluster = &ledger.Cluster{Member: agreement.Member{Incarnation: s.site.Incarnation}}
	last, err := ledger.Convert(n.Database(), &single)
	if err != nil {
		return err
	}
	if last != nil {
		s.site.After = last.Seq
	}
	return s.site.Save()
}

// Ready serves the other nodes, waits until the log of the node has what the cluster registered,
// and shows the others to the server. url is that of the node for clients.
func (s *Serving) Ready(ctx context.Context, n *node.Node, url string, config *server.Config) (err error) {
	if !s.on {
		return nil
	}
	if s.site.Joined && !s.site.Anchored {
		s.site.Anchored = true
		if err := s.site.Save(); err != nil {
			return err
		}
	}
	s.node.Show(url)
	s.show = func(size uint64) (*cluster.Shown, error) { return shown(s.site, n, size) }
	s.port, err = peer.New(peer.Config{Node: s.node, Site: s.site, Keys: n.KeysDir(), Copy: n.Log.Copy, Show: s.show, Accused: s.fatal, Logger: s.logger})
	if err != nil {
		return err
	}
	s.nowServed.Store(s.port)
	s.ports = make(chan error, 1)
	go func() { s.ports <- s.port.Run(ctx, s.peers) }() // ends with ctx, or with its listener
	if s.router, err = peer.NewRouter(s.node, s.site, s.logger, n.Log.Wait); err != nil {
		return err
	}
	n.Reach = s.router.Reach
	p := &peers{s.router, s.node, n}
	config.Peers, config.Cluster = p, p.members
	config.Metrics.Room(func() bool { return n.Log.Space() != nil }, s.node.Database)
	if err := n.CaughtUp(ctx, s.router.Reach); err != nil {
		return err
	}
	return s.node.CheckFormat(ctx) // as the others had it when the node asked them
}

// shown shows the log of a node, and the root of a size.
func shown(s *site.Site, n *node.Node, size uint64) (*cluster.Shown, error) {
	head := n.Log.Head()
	all := &cluster.Shown{Node: s.Name, Incarnation: s.Incarnation, Head: head.Head, Note: head.Note,
		Clock: node.WallClock().UnixMilli(), Room: n.Log.Space() == nil}
	for _, k := range n.Keys {
		all.Keys = append(all.Keys, k.VerifierKeys[:]...)
	}
	if size > head.Size {
		return all, nil
	}
	at, err := n.Log.HeadAt(size)
	all.At = &at.Root
	return all, err
}

// Run serves the other nodes until ctx ends, and compares its log with theirs. An error goes to
// fail, too.
func (s *Serving) Run(ctx context.Context, n *node.Node, api *server.Server, fail func(error)) error {
	if !s.on {
		return nil
	}
	s.port.Answer(peer.Passed(api.Handler()))
	var watched error
	var watching sync.WaitGroup
	watching.Go(func() {
		w := &peer.Watcher{Node: s.node, Client: s.client, Show: s.show,
			Round: func(others []*cluster.Shown) { s.judge(ctx, n, others) }}
		var found *peer.Evidence
		if found, watched = w.Run(ctx); watched != nil {
			s.fatal(errors.Join(watched, s.keepEvidence(found)))
		}
	})
	stop := context.AfterFunc(ctx, s.port.Close)
	defer stop()
	err := <-s.ports
	if err != nil {
		fail(err)
	}
	watching.Wait()
	s.node.GiveUp(context.WithoutCancel(ctx))
	return errors.Join(err, watched)
}

// keepEvidence writes what two nodes have shown that differ.
func (s *Serving) keepEvidence(found *peer.Evidence) error {
	text, err := json.Marshal(found, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.Write(s.site.EvidenceFile(), append(text, '\n'), 0o600)
}

// Abandon ends what a node is for the others, and waits for nothing.
func (s *Serving) Abandon() {
	if port := s.nowServed.Load(); port != nil {
		port.Close()
	}
	if n := s.nowRuns.Load(); n != nil {
		n.Abandon()
	}
}

// Close ends the node, behind its log.
func (s *Serving) Close() error {
	err := s.release()
	if s.node != nil {
		err = errors.Join(err, s.node.Close())
	}
	if s.peers != nil {
		if closed := s.peers.Close(); !errors.Is(closed, net.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}
