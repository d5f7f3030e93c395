package access

import (
	"context"
	"errors"
	"slices"

	"recoveryledger/api/client"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/cose"
)

// headSource returns the tree heads of a log.
type headSource interface {
	// Head returns the newest tree head. Published returns the newest tree head with all
	// signatures. Both heads are signed by the pinned keys, and continue the head that was accepted
	// before.
	Head(ctx context.Context) (verify.SignedHead, error)
	Published(ctx context.Context) (verify.SignedHead, error)
}

// receiptSource returns the receipts of a log.
type receiptSource interface {
	// Receipt returns a verified receipt.
	Receipt(ctx context.Context, index uint64) (*verify.Receipt, error)
	// COSE returns a receipt as a verified COSE receipt, and in its usual form.
	COSE(ctx context.Context, index uint64) ([]byte, *verify.Receipt, error)
}

// logSource reads a log from a server, or from a stopped ledger.
type logSource interface {
	headSource
	receiptSource
	// Consistent returns nil if the newer head is proven to continue the older head, and a
	// [*verify.ForkError] if it is proven not to.
	Consistent(ctx context.Context, older, newer verify.SignedHead) error
	audit.Source
}

// Log is a log under its pinned root.
type Log struct {
	logSource
	Registry registry // of the same log
	Root     verify.Root
	Before   *merkle.Head // accepted before this command; nil: none
	Kept     keptUse
	audited  bool // whether the entries were checked by their rules
}

// keptUse is the use of a log's kept fold by a command.
type keptUse int

// The uses of a kept fold.
const (
	UseKept     keptUse = iota // continue from the kept fold, and keep the new fold
	ReplaceKept                // derive the fold again, and keep it
	ignoreKept                 // neither read nor write the kept fold
)

// WithLog opens the log that the flags name, and calls use. The log stays open until use returns.
func (m *Machine) WithLog(ctx context.Context, w *Where, use func(*Log) error) error {
	if w.Data == "" {
		return m.WithConnection(ctx, &w.Target, func(c *Connection) error { return use(c.OpenLog(w)) })
	}
	if w.URL != "" {
		return exit.Usagef("--data and --url name two logs: pass one of them")
	}
	options := m.InPlace(w)
	options.Looks = true
	n, err := openStopped(ctx, options, "pass --url in place of --data")
	if err != nil {
		return err
	}
	source, err := m.nodeSource(n, w.Root)
	if err == nil {
		l := &Log{logSource: source, Registry: n, Root: source.root, Kept: w.keptUse()}
		if source.known != nil {
			l.Before = &source.known.Head
		}
		err = use(l)
		if l.audited {
			_ = node.NoteCheck(w.Data, "audit", n.Log.Size(), err == nil) // the command tells the result
		}
	}
	return errors.Join(err, n.Log.Close())
}

// openStopped opens a data directory for a command that could ask a server instead. The remedy says
// how.
func openStopped(ctx context.Context, options node.Options, remedy string) (*node.Node, error) {
	n, err := node.Open(ctx, options)
	if errors.Is(err, ledger.ErrInUse) {
		err = exit.Remedied("if that process is arl serve, "+remedy, err)
	}
	return n, err
}

// Entry returns the entry at index, proven to be in the log and signed by a key that counted.
func (l *Log) Entry(ctx context.Context, index uint64) (*client.Entry, error) {
	if c, running := l.Registry.(*Connection); running {
		return c.Client.Entry(ctx, index)
	}
	receipt, err := l.Receipt(ctx, index)
	if err != nil {
		return nil, err
	}
	signers, err := links(ctx, l.Registry, []verify.Receipt{*receipt})
	if err != nil {
		return nil, err
	}
	report, err := l.Root.Verify(verify.Material{Receipts: slices.Concat([]verify.Receipt{*receipt}, signers)})
	if err != nil {
		return nil, err
	}
	return &client.Entry{Entry: *report.Subject, Receipt: *receipt}, nil
}

// OpenLog returns the log of the connection's ledger.
func (c *Connection) OpenLog(w *Where) *Log {
	return &Log{logSource: c, Registry: c, Root: c.Root, Before: c.Before, Kept: w.keptUse()}
}

// nodeSource is a stopped ledger, opened in place.
type nodeSource struct {
	trust *trust.Store
	node  *node.Node
	root  verify.Root
	known *verify.SignedHead // accepted before; nil: none
}

// nodeSource returns the source of a ledger that is opened in place. The root is the root in
// rootFile, or the directory's own root if rootFile is empty.
func (m *Machine) nodeSource(n *node.Node, rootFile string) (*nodeSource, error) {
	s := &nodeSource{trust: m.Trust, node: n}
	root, err := n.Root()
	s.root = trust.WithCosigner(root)
	if err == nil && rootFile != "" {
		s.root, err = m.ReadRoot(rootFile)
	}
	if err == nil {
		s.known, err = m.Trust.Head(s.root)
	}
	return s, err
}

// Head implements headSource. It returns the published tree head.
func (s *nodeSource) Head(ctx context.Context) (verify.SignedHead, error) { return s.Published(ctx) }

// Published implements headSource. It returns the published tree head once that head
// continues the head that this machine knows. The machine knows the published head from
// then on.
func (s *nodeSource) Published(ctx context.Context) (verify.SignedHead, error) {
	published, err := s.node.Log.Published()
	if err != nil {
		return verify.SignedHead{}, err
	}
	head := published.SignedHead
	if _, err := s.root.Witnessed(head.Note); err != nil {
		return head, err
	}
	if s.known != nil {
		if err := s.Consistent(ctx, *s.known, head); err != nil {
			return head, err
		}
	}
	return head, s.trust.SaveHead(s.root.Origin, head.Note)
}

// Consistent implements logSource. It takes the proof from the tree of the ledger.
func (s *nodeSource) Consistent(_ context.Context, older, newer verify.SignedHead) error {
	return s.node.Continues(older, newer)
}

// Receipt implements logSource. The receipt is verified under the pinned root.
func (s *nodeSource) Receipt(_ context.Context, index uint64) (*verify.Receipt, error) {
	receipt, err := s.node.Log.Receipt(index)
	if err != nil {
		return nil, err
	}
	_, err = s.root.Verify(verify.Material{Receipts: []verify.Receipt{*receipt}})
	return receipt, err
}

// COSE implements logSource. The receipt is verified under the pinned root.
func (s *nodeSource) COSE(ctx context.Context, index uint64) ([]byte, *verify.Receipt, error) {
	receipt, err := s.Receipt(ctx, index)
	if err != nil {
		return nil, nil, err
	}
	content, err := s.node.COSE(index)
	if err == nil {
		_, err = cose.Open(content, receipt.Leaf, s.root)
	}
	return content, receipt, err
}

// Tile implements [audit.Source].
func (s *nodeSource) Tile(_ context.Context, t merkle.Tile) ([]byte, error) {
	return s.node.Log.Tile(t)
}
