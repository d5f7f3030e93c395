package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/cluster"
)

// watchEvery is the time between two comparisons of a node with the others.
const watchEvery = time.Second

// Evidence is two nodes that have two roots of one size.
type Evidence struct {
	At   time.Time      `json:"at"`
	Own  *cluster.Shown `json:"own"`  // of this node; At is its root of the other's size, if that is smaller
	Peer *cluster.Shown `json:"peer"` // of the other node; At is its root of Own's size, if it has that
	Text string         `json:"text"` // what differs

	cause error // which Text says
}

// head shows the log of this node.
func (s *Server) head(r *http.Request) (any, error) {
	size, err := strconv.ParseUint(r.URL.Query().Get("size"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("peer: size: %w", err)
	}
	return s.cfg.Show(size)
}

// accuse takes evidence of another node. It counts only if this node finds the same: another root
// of that size than its own.
func (s *Server) accuse(r *http.Request) (any, error) {
	var told Evidence
	if err := json.UnmarshalRead(io.LimitReader(r.Body, answerMax), &told); err != nil || told.Own == nil {
		return nil, errors.Join(errors.New("peer: malformed evidence"), err)
	}
	own, err := s.cfg.Show(told.Own.Size)
	if err != nil {
		return nil, err
	}
	if err := own.Differs(told.Own.Node, told.Own.Head); err != nil {
		s.cfg.Accused(err)
	}
	return nil, errors.New("peer: this node does not find what it is told")
}

// HeadBy is [Client.Head] of a node whose clock is compared with that of this node.
func (c *Client) HeadBy(ctx context.Context, address string, size uint64, clock func() time.Time) (*cluster.Shown, error) {
	own, asked := clock(), time.Now()
	shown, err := c.Head(ctx, address, size)
	if err == nil {
		shown.Ahead = aheadOf(shown, own, time.Since(asked))
	}
	return shown, err
}

// Head asks a node for its log, and for the root of a size.
func (c *Client) Head(ctx context.Context, address string, size uint64) (*cluster.Shown, error) {
	shown := new(cluster.Shown)
	return shown, c.ask(ctx, http.MethodGet, address+pathHead+"?size="+strconv.FormatUint(size, 10), nil, shown)
}

// aheadOf returns by how much the clock of a node is ahead, which was asked at an instant and
// answered so long behind it.
func aheadOf(shown *cluster.Shown, asked time.Time, took time.Duration) time.Duration {
	return time.UnixMilli(shown.Clock).Sub(asked) - took/2
}

// Watcher compares the log of a node with those of the others.
type Watcher struct {
	Node   *cluster.Node
	Client *Client
	// Show shows the log of this node, and the root of a size.
	Show func(size uint64) (*cluster.Shown, error)
	// Round is told what the nodes that answered have shown, in each round.
	Round func(others []*cluster.Shown)
}

// Run compares each second until ctx ends, or until two nodes have two roots of one size. Then it
// tells the other node, which ends too, and returns the evidence and [agreement.ErrDiverged].
func (w *Watcher) Run(ctx context.Context) (*Evidence, error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if found, err := w.round(ctx); err != nil {
			return found, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// answer is what another node has shown.
type answer struct {
	shown *cluster.Shown // nil: nothing
	found *Evidence      // nil: it differs nowhere
}

// round compares with every other node. A node that does not answer is none to compare with.
func (w *Watcher) round(ctx context.Context) (*Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	members, _ := w.Node.Members(ctx) // what a node that stops does not know comes with the next round
	answers := make(chan answer, len(members))
	for i := range members {
		m := &members[i]
		go func() {
			if m.Name == w.Node.Name() {
				answers <- answer{}
				return
			}
			a, _ := w.compare(ctx, m)
			answers <- a
		}()
	}
	var others []*cluster.Shown
	for range members {
		a := <-answers
		if a.found != nil {
			return a.found, a.found.cause
		}
		if a.shown != nil {
			others = append(others, a.shown)
		}
	}
	w.Round(others)
	return nil, nil
}

// compare compares with one node. The error says why there is nothing to compare.
func (w *Watcher) compare(ctx context.Context, m *cluster.Member) (a answer, err error) {
	own, err := w.Show(0)
	if err != nil {
		return a, err
	}
	asked := time.Now()
	shown, err := w.Client.Head(ctx, m.Peer, own.Size)
	if err != nil {
		return a, err
	}
	if shown.Incarnation != own.Incarnation {
		return a, fmt.Errorf("peer: %s is of another cluster", m.Name)
	}
	shown.Ahead = aheadOf(shown, time.UnixMilli(own.Clock), time.Since(asked))
	differs := shown.Differs(own.Node, own.Head)
	if shown.Size < own.Size {
		if own, err = w.Show(shown.Size); err != nil {
			return a, err
		}
		differs = own.Differs(shown.Node, shown.Head)
	}
	a = answer{shown: shown}
	if differs != nil {
		a.found = &Evidence{At: asked, Own: own, Peer: shown, Text: differs.Error(), cause: differs}
		w.accuse(ctx, m.Peer, a.found)
	}
	return a, nil
}

// accuse tells the other node, which looks itself. It ends before it answers.
func (w *Watcher) accuse(ctx context.Context, address string, found *Evidence) {
	told := *found
	if own := *found.Own; own.At != nil && found.Peer.Size < own.Size {
		own.Size, own.Root = found.Peer.Size, *own.At
		told.Own = &own
	}
	if body, err := json.Marshal(&told); err == nil {
		_ = w.Client.ask(ctx, http.MethodPost, address+pathAccuse, body, new(any)) // it compares, too
	}
}
