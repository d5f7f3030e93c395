// Package ledger is the log: an append-only sequence of signed entries in
// Pebble, under an RFC 6962 tree whose head is signed at every batch.
//
// One goroutine, [Log.Run], owns the order. It takes what waits, asks the fold
// to admit each entry, and commits leaves, tiles, indexes and the signed tree
// head as one Pebble batch with one sync; only then it answers. A crash before
// the sync loses the batch as a whole and nobody was answered; a crash after it
// loses nothing. The package does not know what entries mean: [Fold] does.
//
// Invariants:
//
//	I1  a tree head is served only when it is durable
//	I2  an index is answered only when a durable tree head covers it
//	I3  the size never falls
//	I4  an entry's bytes never change
//	I5  any two heads of one origin are consistent
//
// Any error of a commit or a sync ends the process through [Config.Fatal]; state
// in memory never outlives it.
//
// Sources: RFC 6962, c2sp.org/tlog-tiles, c2sp.org/tlog-checkpoint.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/anchor"
	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
	"recoveryledger/ledger/wallclock"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// EngineError is an error with which the storage engine ends the process ([Config.Fatal]) while
// entries are still ordered.
type EngineError = engine.FatalError

var (
	// ErrStopped is the answer when the log no longer takes entries. A submitted entry is in the
	// log only if a receipt says so.
	ErrStopped = errors.New("ledger: stopped")
	// ErrCorrupt reports stored bytes that cannot be read, or contradict the signed tree head.
	ErrCorrupt = engine.ErrCorrupt
	// ErrMissing reports an entry that was acknowledged and is not in the database. It is
	// ErrCorrupt.
	ErrMissing = fmt.Errorf("%w: missing", ErrCorrupt)
	// ErrRolledBack reports a log that does not contain the tree of a head that was signed.
	ErrRolledBack = errors.New("ledger: the log is older than what was signed")
	// ErrLost reports keys that have signed tree heads, and no log of them.
	ErrLost = errors.New("ledger: the log is gone")
	// ErrAnchor reports an anchor that is missing or unreadable.
	ErrAnchor = anchor.ErrUnusable
	// ErrInUse reports a directory that a process has open.
	ErrInUse = errors.New("ledger: the directory is in use")
	// ErrFormat reports a database in a form that this version does not know.
	ErrFormat = errors.New("ledger: another format")
	// ErrOrigin reports a database that belongs to another ledger than the keys.
	ErrOrigin = errors.New("ledger: another ledger")
	// ErrKeys reports a log that none of the keys which are here may sign.
	ErrKeys = errors.New("ledger: its key is not here")
	// ErrNotFound reports an index, a tile or a size that the log does not have.
	ErrNotFound = errors.New("ledger: not found")
)

// Fold is the meaning of a log's entries: state that follows from the entries alone. The log calls
// it from one goroutine.
type Fold interface {
	// Admit checks e as the entry at index, registered at the instant at (Unix milliseconds),
	// against the state, and leaves the state as it is. The error is an [*entry.Refusal].
	Admit(e *entry.Entry, index uint64, at int64) error
	// Apply takes an admitted entry into the state.
	Apply(e *entry.Entry, index uint64, at int64)
	// Snapshot writes the state; its bytes depend on the applied entries only.
	Snapshot(w io.Writer) error
	// Restore replaces the state by a state that Snapshot wrote. It reads r to its end. r fails
	// there unless all bytes read are the bytes written. After an error the state is unchanged.
	Restore(r io.Reader) error
}

// Key is a key of the log, which signs tree heads.
type Key struct {
	// Signer makes the Ed25519 signature of tree heads, Verifier checks it on
	// open. Mandatory; [Check] needs no Signer. A Signer may fail for a while: it
	// is asked again until it signs, and says itself how long a caller waits.
	Signer   note.Signer
	Verifier note.Verifier
	// Cosigner makes the second, ML-DSA-44 signature of the published head.
	// Nil: the published head carries the Ed25519 one alone.
	Cosigner note.Signer
}

// Config says how a log is opened. It is copied and checked once.
type Config struct {
	// Origin names the log in every tree head. Mandatory. A database opens only
	// under the origin it was made with.
	Origin string
	// Keys are the keys of the log that are here, in the order in which they were
	// made. Mandatory. A key shared with another database forks the log.
	Keys []Key
	// Used says that one of Keys has signed a tree head over an entry: they begin no log. A
	// database that is missing or holds no entry is [ErrLost] then, and none is made. A wrong
	// false forks the log: the keys sign other heads for sizes that they have signed before.
	Used bool
	// Begun is called when an entry is durable, before the signed tree head over the entry is
	// published: at the first commit, and at every Open of a log that has entries. From then on
	// Keys are used. An error ends Open, or the process. Nil: no call.
	Begun func() error
	// Signs returns which of Keys sign tree heads over the entries that the fold
	// has applied: one at least. Nil: all.
	Signs func(fold Fold, keys []Key) []Key
	// NewFold returns a fold in its first state. Mandatory. The first one that
	// Open makes is the state that admits.
	NewFold func() Fold
	// Frozen returns the committed state as a fold that no longer changes, and the number of
	// entries in it, at any time after Committed. The log takes snapshots from it in the
	// background. Nil: the only snapshot is the one that Run takes at its end.
	Frozen func() (Fold, uint64)
	// Precheck checks a submitted entry before it is ordered, concurrently and
	// against committed state: it spares the order work, it grants nothing. It
	// may set SignatureChecked. Nil: all is left to Admit.
	Precheck func(e *entry.Entry) error
	// Committed is called with the newest head when the log is open, and after every
	// commit, in order. Nil: nothing is called.
	Committed func(head verify.SignedHead)
	// Observe is called with every commit that added entries, in order, for statistics. The
	// goroutine that owns the order calls it, so it must not wait. Nil: no call.
	Observe func(Commit)
	// Fatal ends the process; it must not return. Mandatory. If it returned,
	// Pebble would acknowledge lost writes.
	Fatal func(err error)
	// Logger takes the messages of the storage engine and of the log itself. Nil: no messages.
	Logger *slog.Logger

	// FS is where the database lives. Nil: the disk.
	FS vfs.FS
	// Anchor is the path of the anchor file. Empty: the directory's name with
	// ".anchor" behind it. It must not lie inside the directory.
	Anchor string
	// AcceptAnchor makes a new anchor if the anchor is missing or cannot be read. It gives up the
	// proof that the database is the newest one. A readable anchor always counts.
	AcceptAnchor bool
	// Now reads the wall clock. Nil: time.Now.
	Now func() time.Time
	// Uptime reads a clock that only advances. Nil: the time since Open, which no step touches.
	Uptime func() time.Duration
	// MaxStep is the largest distance of the wall clock from the ledger's own
	// that is believed, asked at every batch. Nil: one minute.
	MaxStep func() time.Duration
	// AcceptClock takes the wall clock at start, however far behind the last entry. The ledger's
	// time stands still until the wall clock has caught up.
	AcceptClock bool
	// SnapshotEvery is the least number of entries between two snapshots of the fold; a large log
	// waits until it has grown by a quarter. One more is taken when Run ends. 0: 65,536. Fewer
	// make a start after a crash faster and registration slower.
	SnapshotEvery uint64
	// Reserve is the free space in bytes below which entries are refused (insufficient-storage). 0:
	// 256 MiB.
	Reserve uint64
	// Cluster makes the log one node of a cluster. Nil: the log orders by itself.
	Cluster *Cluster
	// Rebuild is told, while Open builds the state again from the entries behind the newest
	// snapshot, how many of total are applied. An error of it ends Open. Nil: nobody is told.
	Rebuild func(done, total uint64) error
	// CommitTimeout ends the process when a commit hangs longer. 0: 30 s.
	CommitTimeout time.Duration
}

func (c *Config) withDefaults(dir string) (*Config, error) {
	d := *c
	if d.Origin == "" || len(d.Keys) == 0 || d.NewFold == nil || slices.ContainsFunc(d.Keys, func(k Key) bool { return k.Verifier == nil }) {
		return nil, errors.New("ledger: open: Origin, Keys with a Verifier each, and NewFold are required")
	}
	d.Keys = slices.Clone(d.Keys)
	if d.Signs == nil {
		d.Signs = func(_ Fold, keys []Key) []Key { return keys }
	}
	if d.Begun == nil {
		d.Begun = func() error { return nil }
	}
	if d.Precheck == nil {
		d.Precheck = func(*entry.Entry) error { return nil }
	}
	if d.Committed == nil {
		d.Committed = func(verify.SignedHead) {}
	}
	if d.Observe == nil {
		d.Observe = func(Commit) {}
	}
	if d.Rebuild == nil {
		d.Rebuild = func(_, _ uint64) error { return nil }
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.FS == nil {
		d.FS = vfs.Default
	}
	if d.Anchor == "" {
		d.Anchor = dir + ".anchor"
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Uptime == nil {
		opened := time.Now()
		d.Uptime = func() time.Duration { return time.Since(opened) }
	}
	if d.MaxStep == nil {
		d.MaxStep = func() time.Duration { return time.Minute }
	}
	if d.SnapshotEvery == 0 {
		d.SnapshotEvery = 1 << 16
	}
	if d.Reserve == 0 {
		d.Reserve = 256 << 20
	}
	if d.CommitTimeout == 0 {
		d.CommitTimeout = 30 * time.Second
	}
	return &d, nil
}

// canWrite is an error if a log cannot be written with this configuration.
func (c *Config) canWrite() error {
	if c.FS == vfs.Default {
		if err := disk.CheckSystem(runtime.GOOS); err != nil {
			return err
		}
	}
	return c.canSign()
}

// canSign is an error unless a log can be written with the configuration.
func (c *Config) canSign() error {
	if c.Fatal == nil || slices.ContainsFunc(c.Keys, func(k Key) bool { return k.Signer == nil }) {
		return errors.New("ledger: open: Fatal, and a Signer of each key, are required")
	}
	return c.Cluster.check()
}

// Log is an open log. [Log.Run] must run for entries to be taken; reading works without it.
type Log struct {
	cfg   *Config
	dir   string
	db    *pebble.DB
	gate  *fair.Gate
	lanes *fair.Lanes[laneID]
	clock *wallclock.Clock
	space *disk.Space

	// The members that readers share. view is replaced after every commit and is itself immutable;
	// tiles caches full tiles, which never change.
	view  atomic.Pointer[view]
	tiles *lru.Cache[merkle.Tile, *merkle.TileNodes]
	known *dedup.Filter // over dedup keys

	snapshotAt atomic.Uint64 // size of the newest snapshot that is durable
	damage     error         // of the stored snapshot; nil: none was found when the log was opened

	// The way into the order and out of it.
	in      chan *submission
	closing chan struct{}                 // closed: no more submissions are taken
	stopped chan struct{}                 // closed: Run has returned
	halted  chan struct{}                 // closed: nothing is signed any more
	running atomic.Bool                   // whether Run was called
	sound   chan struct{}                 // closed: Run takes submissions
	away    atomic.Pointer[entry.Refusal] // of new entries while a key does not sign; nil: all sign
	chunks  chan snapshotChunk
	leads   atomic.Bool   // whether this node of a cluster orders the log
	kept    atomic.Uint64 // the last batch that this node of a cluster has on its disk

	// Owned by the order goroutine.
	order order

	published published
}

// Open opens the log in dir, or makes an empty one, and checks it: the right edge of the tree is
// hashed again from leaves and full tiles and must give the last signed tree head, which must
// cover the anchor. The fold is restored from its newest snapshot and the entries behind it.
func Open(dir string, c *Config) (*Log, error) {
	cfg, err := c.withDefaults(dir)
	if err == nil {
		err = cfg.canWrite()
	}
	if err != nil {
		return nil, err
	}
	db, err := openStore(dir, cfg)
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, dir: dir, db: db,
		gate:    fair.NewGate(),
		lanes:   fair.NewLanes[laneID](maxLanes),
		space:   disk.NewSpace(cfg.FS, dir, cfg.Reserve),
		in:      make(chan *submission, maxPending),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		halted:  make(chan struct{}),
		sound:   make(chan struct{}),
		chunks:  make(chan snapshotChunk),
	}
	if l.tiles, err = lru.New[merkle.Tile, *merkle.TileNodes](tileCacheSize); err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

// load brings the state in memory to the content of the database.
func (l *Log) load() error {
	last, err := readLastBatch(l.db)
	if err != nil {
		return err
	}
	if last.Size == 0 && l.cfg.Used && l.cfg.Cluster == nil {
		return fmt.Errorf("%w: the database %s has no entry, but its keys have signed tree heads: %s", ErrLost, l.dir, LostRemedy)
	}
	if err := checkHead(l.cfg.Origin, l.cfg.Keys, last); err != nil {
		return err
	}
	v, err := l.loadEdge(last.Head())
	if err != nil {
		return err
	}
	v.note, v.at = last.Note, last.At
	l.view.Store(v)
	if err := l.checkAnchor(last); err != nil {
		return err
	}
	fold := l.cfg.NewFold()
	snapshot, frontier, err := l.restoreFold(fold, v)
	if err != nil {
		return err
	}
	if v.keys = l.cfg.Signs(fold, l.cfg.Keys); len(v.keys) == 0 {
		return fmt.Errorf("%w: no key is in force at size %d", ErrKeys, last.Size)
	}
	if err := checkHead(l.cfg.Origin, v.keys, last); err != nil { // not by a key that was replaced
		return err
	}
	if last.Size > 0 {
		if err := l.cfg.Begun(); err != nil {
			return fmt.Errorf("ledger: open: %w", err)
		}
	}
	l.clock = wallclock.New(wallclock.Config{Wall: l.cfg.Now, Uptime: l.cfg.Uptime, MaxStep: l.cfg.MaxStep, Accepted: l.cfg.AcceptClock})
	l.published.log = l
	l.known = dedup.NewFilter(last.Size)
	l.publishFirst()
	file, err := anchor.Create(l.cfg.FS, l.cfg.Anchor, l.cfg.Origin, last.anchor(), l.cfg.Fatal)
	if err != nil {
		return err
	}
	l.snapshotAt.Store(snapshot)
	l.order = order{fold: fold, snapshot: snapshot, last: last, frontier: frontier, edge: slices.Clone(v.edge), anchor: file, recent: dedup.NewRecent(v.head.Size)}
	l.cfg.Committed(l.Head().SignedHead)
	return nil
}

// Close closes the database. Run must have returned.
func (l *Log) Close() error {
	anchorErr := l.order.anchor.Close()
	room := l.space.Check() == nil
	spaceErr := l.space.Close()
	var flushErr error
	if room { // without, a flush would be tried for ever
		flushErr = l.db.Flush() // the write-ahead log is empty then: faster to open, smaller
	}
	if err := errors.Join(anchorErr, spaceErr, flushErr, l.db.Close()); err != nil {
		return fmt.Errorf("ledger: close: %w", err)
	}
	return nil
}

// Run takes entries until ctx ends. It commits and answers the submissions accepted by then
// before it returns.
func (l *Log) Run(ctx context.Context) error {
	l.running.Store(true)
	defer close(l.stopped)
	if err := l.prepare(ctx); err != nil {
		close(l.closing)
		if ctx.Err() != nil {
			return l.lastSnapshot()
		}
		return err
	}
	l.order.ending = ctx.Done()
	if l.away.Load() != nil && !l.untilSigned(l.signNewest, nil) {
		close(l.closing)
		return nil
	}
	close(l.sound)
	background, cancel := context.WithCancel(ctx)
	defer cancel()
	snapshot, snapshots := l.order.snapshot, make(chan error, 1)
	go func() { snapshots <- l.runSnapshots(background, snapshot) }()
	node := l.enter(ctx)
	defer node.leave()
	for !over(l.halted) && !l.order.lost {
		select {
		case s := <-l.in:
			l.gather()
			if batch := l.drain(s); !over(l.halted) {
				l.register(batch)
			}
		case chunk := <-l.chunks:
			l.commitChunk(&chunk)
		case b := <-node.behind(l.space):
			l.follow(b)
		case t, open := <-node.terms:
			if !open {
				node.terms = nil
			}
			l.begin(ctx, t)
		case <-node.ticks:
			node.sync(l.order.last)
		case <-l.halted:
		case err := <-snapshots:
			if err != nil && ctx.Err() == nil {
				return errors.Join(err, l.finish(nil))
			}
			snapshots = nil
		case <-ctx.Done():
			return l.finish(snapshots)
		}
	}
	close(l.closing)
	cancel()
	if snapshots != nil {
		<-snapshots //nolint:errcheck // what is not written is made again
	}
	return nil
}

// prepare makes the store fit for writes. The log takes submissions only afterwards. prepare
// removes damaged values before newer values lie above them.
func (l *Log) prepare(ctx context.Context) error {
	whole := context.WithoutCancel(ctx)
	if l.damage != nil {
		if err := engine.Discard(whole, l.db, []byte{keySnapshot}, []byte{keySnapshot + 1}); err != nil {
			return fmt.Errorf("ledger: discard the damaged snapshot: %w", err)
		}
	}
	if err := engine.RenewTables(whole, l.db); err != nil {
		return err
	}
	return l.known.Load(ctx, l.db, l.view.Load().head.Size)
}

// finish answers the submissions that were accepted before the end.
func (l *Log) finish(snapshots <-chan error) error {
	close(l.closing)
	for {
		if over(l.halted) || l.order.lost {
			return nil
		}
		select {
		case s := <-l.in:
			l.register(l.drain(s))
		default:
			if snapshots != nil {
				if err := <-snapshots; err != nil {
					return err
				}
			}
			return l.lastSnapshot()
		}
	}
}
