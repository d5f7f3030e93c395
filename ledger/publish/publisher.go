package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"recoveryledger/ledger"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Config describes a publisher.
type Config struct {
	// Target takes the files. Mandatory.
	Target Target
	// Source is the log, and Open opens its signed tree heads, as in [export.Config]. Mandatory.
	Source export.Source
	Open   func(signed []byte) (merkle.Head, error)
	// Size is the number of entries of the log, of which Published may cover fewer. Nil: as many as
	// Published covers.
	Size func() uint64
	// Reach returns nil when the log has what was registered anywhere when the call began. Only
	// then does a larger published head say that entries are lost. Nil: no other node registers
	// entries. Else Size is required.
	Reach func(ctx context.Context) error
	// Keep is how long partial tiles stay after a published head has the full one. 0: 1 h.
	Keep time.Duration
	// Now is the time. Nil: [time.Now].
	Now func() time.Time
	// Progress is told how many of how many new entries are published. Nil: nobody is.
	Progress func(done, total uint64)
	// Logger takes errors of Run. Nil: silence.
	Logger *slog.Logger
	// Failed is told of every error of Run that is tried again. Nil: nobody is.
	Failed func(error)
}

// Limits of a publisher.
const (
	keepDefault = time.Hour
	maxPuts     = 16 // at a time
	noteBundles = 64 // bundles after which the notes say how far the full tiles are
	retryMax    = time.Minute
)

// Values of Cache-Control: of what never changes, and of the tree head.
const (
	cacheForever = "public, max-age=31536000, immutable"
	cacheMoment  = "public, max-age=1"
)

// Publisher brings a target up to the published tree head of a log. Its methods must not be called
// concurrently, but Status may be.
type Publisher struct {
	cfg *Config

	mu   sync.Mutex // of what follows
	size uint64     // of the tree head that the target was seen to have
	due  time.Time  // when the next round is to end
}

// New returns a publisher. It makes no request.
func New(c *Config) (*Publisher, error) {
	d := *c
	if d.Target == nil || d.Source == nil || d.Open == nil {
		return nil, errors.New("publish: new: Target, Source and Open are required")
	}
	if d.Keep == 0 {
		d.Keep = keepDefault
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Progress == nil {
		d.Progress = func(uint64, uint64) {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Failed == nil {
		d.Failed = func(error) {}
	}
	return &Publisher{cfg: &d, due: d.Now()}, nil
}

// Status returns the size of the newest tree head that the target is known to have, and for how
// long the target may lack the log's. late is 0 while rounds end in time. A round that does not end
// makes it late, too.
func (p *Publisher) Status() (size uint64, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size, max(0, p.cfg.Now().Sub(p.due))
}

// ended notes that a round left a tree head at the target, and when the next round is due.
func (p *Publisher) ended(size uint64, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size, p.due = size, p.cfg.Now().Add(pause)
}

// Write publishes a log once to a location, as [Open] has it.
func Write(ctx context.Context, location string, c *export.Config) (*export.Report, error) {
	target, err := Open(location, os.Getenv)
	if err != nil {
		return nil, err
	}
	p, err := New(&Config{Target: target, Source: c.Source, Open: c.Open, Progress: c.Progress})
	if err != nil {
		return nil, err
	}
	return p.Once(ctx)
}

// Run publishes the log, again and again with a pause of every, until ctx ends. An error of the
// target is logged, and tried again. The error is [ledger.ErrRolledBack] or
// [export.ErrInconsistent]: the target has a signed tree head that the log does not have.
func (p *Publisher) Run(ctx context.Context, every time.Duration) error {
	pause := every
	for {
		report, err := p.Once(ctx)
		switch {
		case ctx.Err() != nil: // which may be why err is not nil
			return nil //nolint:nilerr // the end was asked for
		case Conflicts(err):
			return err
		case err != nil:
			p.cfg.Logger.Warn("publishing failed: it is tried again", slog.String("error", err.Error()))
			p.cfg.Failed(err)
			pause = min(2*max(pause, time.Second), retryMax)
		default:
			pause = every
			p.ended(report.Newer.Size, every)
			if report.Newer != report.Older {
				p.cfg.Logger.Debug("published", slog.Uint64("size", report.Newer.Size), slog.Int("files", report.Files))
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// Conflicts reports whether an error says that the target has a signed tree head that the log does
// not have.
func Conflicts(err error) bool {
	return errors.Is(err, ledger.ErrRolledBack) || errors.Is(err, export.ErrInconsistent)
}

// Once brings the target up to the published tree head. After an error the target has the older
// tree head or the newer one, whole; the next call goes on. The error is [ledger.ErrRolledBack] if
// the target has more than the log, [export.ErrInconsistent] if it has another log, with a
// [verify.ForkError] if the log shows that the ledger's key signed two histories,
// [export.ErrDamaged] if the source gives what was not signed, [ErrChanged] if another publisher
// was faster.
func (p *Publisher) Once(ctx context.Context) (*export.Report, error) {
	r, err := p.begin(ctx)
	if err != nil || r.nothing {
		return r.report(), err
	}
	if r.notes.add(r.newer.Size) { // before the tiles, so that none is forgotten
		if err := r.notes.write(ctx, p.cfg.Target); err != nil {
			return nil, err
		}
	}
	if r.older != r.newer {
		err := r.copy(ctx)
		if errors.Is(err, errOtherNotes) {
			r.notes.Full, r.kept = merkle.EmptyHead(), 0
			err = r.copy(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.signed != r.head.Note {
		_, err := p.cfg.Target.Put(ctx, export.Checkpoint, []byte(r.head.Note),
			PutOptions{ContentType: "text/plain; charset=utf-8", CacheControl: cacheMoment, IfTag: r.tag, IfAbsent: r.tag == ""})
		if err != nil {
			return nil, err
		}
	}
	return r.report(), r.clean(ctx)
}

// Check compares the tree head of the target with the log, and writes nothing.
func (p *Publisher) Check(ctx context.Context) error {
	_, err := p.begin(ctx)
	return err
}

// run is one call of Once.
type run struct {
	*Config

	signed, tag  string // tree head of the target; empty: it has none
	head         verify.SignedHead
	older, newer merkle.Head
	nothing      bool // the target has a newer head of this log than the published one
	notes        *notes
	tree         *merkle.TileBuilder
	puts         *errgroup.Group    // under way
	stop         context.CancelFunc // of the puts
	files, kept  int
}

func (r *run) report() *export.Report {
	if r == nil {
		return nil
	}
	return &export.Report{Older: r.older, Newer: r.newer, Files: r.files, Kept: r.kept}
}

// begin reads what the target and the log have.
func (p *Publisher) begin(ctx context.Context) (*run, error) {
	r := &run{Config: p.cfg, older: merkle.EmptyHead()}
	signed, tag, err := r.Target.Get(ctx, export.Checkpoint)
	if err == nil {
		r.signed, r.tag = string(signed), tag
		if r.older, err = r.Open(signed); err != nil {
			err = fmt.Errorf("%w: the checkpoint there is no tree head of this log: %v", export.ErrInconsistent, err)
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if r.head, err = r.Source.Published(); err != nil {
		return nil, fmt.Errorf("publish: published tree head: %w", err)
	}
	if r.newer, err = r.Open([]byte(r.head.Note)); err != nil {
		return nil, fmt.Errorf("publish: published tree head: %w", err)
	}
	size := r.newer.Size
	if r.Size != nil {
		size = max(size, r.Size())
	}
	if r.older.Size > size && r.Reach != nil { // another node may have published it
		if err := r.Reach(ctx); err != nil {
			return nil, fmt.Errorf("publish: a head of size %d is published, and this node has %d entries: %w", r.older.Size, size, err)
		}
		size = max(size, r.Size())
	}
	if r.older.Size > size {
		return nil, fmt.Errorf("%w: a head of size %d is published under the ledger's signature, and the log has size %d: %s",
			ledger.ErrRolledBack, r.older.Size, size, ledger.LostRemedy)
	}
	if r.older.Size == r.newer.Size && r.older != r.newer {
		return nil, r.contradicted(r.newer)
	}
	if r.nothing = r.older.Size > r.newer.Size; r.nothing {
		r.newer = r.older
		return r, nil
	}
	r.notes, err = readNotes(ctx, r.Target)
	return r, err
}

// errOtherNotes says that the notes are of another log.
var errOtherNotes = errors.New("publish: the notes are of another log")

// copy puts the tiles that the target lacks. It computes them from the entries, and sees that the
// entries give the root of either head.
func (r *run) copy(ctx context.Context) (err error) {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.puts = new(errgroup.Group)
	r.puts.SetLimit(maxPuts)
	err = r.copyTiles(ctx)
	if failed := r.puts.Wait(); failed != nil {
		return failed // why ctx ended
	}
	return err
}

func (r *run) copyTiles(ctx context.Context) (err error) {
	size := r.older.Size - r.older.Size%merkle.TileWidth
	r.tree, err = merkle.NewTileBuilder(size, r.Source.Tile, func(t merkle.Tile, hashes []byte) error { return r.putTile(ctx, t, hashes) })
	if errors.Is(err, merkle.ErrMalformed) {
		err = fmt.Errorf("%w: %v", export.ErrDamaged, err)
	}
	if err == nil {
		err = r.checkRoot(size)
	}
	for n := 1; err == nil && size < r.newer.Size; n++ {
		width := min(merkle.TileWidth, r.newer.Size-size)
		if err := r.copyBundle(ctx, merkle.Tile{Entries: true, Index: size / merkle.TileWidth, Width: int(width)}); err != nil {
			return err
		}
		size += width
		r.Progress(size-min(size, r.older.Size), r.newer.Size-r.older.Size)
		if n%noteBundles == 0 && size > r.notes.Full.Size {
			err = r.note(ctx)
		}
	}
	if err != nil {
		return err
	}
	for t, hashes := range r.tree.Partial() {
		if err := r.putTile(ctx, t, hashes); err != nil {
			return err
		}
	}
	return nil
}

// note writes how far the full tiles are, once they are.
func (r *run) note(ctx context.Context) (err error) {
	if err := r.puts.Wait(); err != nil {
		return err
	}
	if r.notes.Full, err = r.tree.Head(); err != nil {
		return err
	}
	return r.notes.write(ctx, r.Target)
}

// copyBundle puts the entries of one tile and appends them to the tree.
func (r *run) copyBundle(ctx context.Context, t merkle.Tile) error {
	bundle, err := r.Source.Tile(t)
	if err != nil {
		return fmt.Errorf("publish %s: %w", t.Path(), err)
	}
	rest := bundle
	for i := range t.Width {
		var leaf []byte
		if leaf, rest, err = merkle.CutLeaf(rest); err != nil {
			return fmt.Errorf("%w: %s ends within entry %d", export.ErrDamaged, t.Path(), i)
		}
		if err := r.tree.Append(merkle.HashLeaf(leaf)); err != nil {
			return err
		}
		if err := r.checkRoot(t.Index*merkle.TileWidth + uint64(i) + 1); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %s has %d bytes behind its entries", export.ErrDamaged, t.Path(), len(rest))
	}
	return r.putTile(ctx, t, bundle)
}

// contradicted returns an [export.ErrInconsistent] about a published tree head with another root
// than the log, whose head of that size is given.
func (r *run) contradicted(head merkle.Head) error {
	return export.Contradicted(verify.SignedHead{Head: r.older, Note: r.signed}, verify.SignedHead{Head: r.newer, Note: r.head.Note}, head, r.Source.Tile)
}

// checkRoot compares the tree over size entries with the heads that are known for that size.
func (r *run) checkRoot(size uint64) error {
	if size != r.older.Size && size != r.newer.Size && size != r.notes.Full.Size {
		return nil
	}
	head, err := r.tree.Head()
	switch {
	case err != nil:
		return err
	case size == r.older.Size && head != r.older:
		return r.contradicted(head)
	case size == r.newer.Size && head != r.newer:
		return fmt.Errorf("%w: size %d gives root %s, signed is %s", export.ErrDamaged, size, head.Root, r.newer.Root)
	case size == r.notes.Full.Size && head != r.notes.Full:
		return errOtherNotes
	}
	return nil
}

// putTile puts a tile in the background, unless the notes say that it is there.
func (r *run) putTile(ctx context.Context, t merkle.Tile, content []byte) error {
	if t.Width == merkle.TileWidth && (t.Index+1)<<(merkle.TileHeight*(t.Level+1)) <= r.notes.Full.Size {
		r.kept++
		return ctx.Err()
	}
	r.files++
	o := PutOptions{ContentType: "application/octet-stream", CacheControl: cacheForever}
	if t.Entries {
		o.ContentEncoding = "gzip"
	}
	r.puts.Go(func() error {
		_, err := r.Target.Put(ctx, t.Path(), content, o)
		if err != nil {
			r.stop()
		}
		return err
	})
	return ctx.Err()
}

// clean removes partial tiles whose time is over.
func (r *run) clean(ctx context.Context) error {
	names, changed := r.notes.expire(r.newer.Size, r.Now(), r.Keep)
	for _, name := range names {
		if err := r.Target.Delete(ctx, name); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return r.notes.write(ctx, r.Target)
}
