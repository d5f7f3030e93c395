package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"recoveryledger/ledger/agreement"
)

var (
	// ErrName reports a name or an address that another node has, or that no node can take now, or
	// the name of the node that is asked.
	ErrName = errors.New("cluster: the name of a node")
	// ErrNoNode reports a name that no node has.
	ErrNoNode = errors.New("cluster: no such node")
	// ErrToken reports a token that was never given, was used, or is too old.
	ErrToken = errors.New("cluster: the token does not count")
	// errNotReached reports a node that does not know whether it has everything that is registered.
	errNotReached = errors.New("cluster: this node may be behind the others")
	// ErrNoVote reports a node that joins still, and cannot lead.
	ErrNoVote = errors.New("cluster: the node has no vote yet")
)

// freshMax is the time for which a confirmed term counts as the newest, for answers that rest on
// more than the log. No other node leads so soon: those that confirmed the term wait for
// electionTime, in ticks that may come in a burst, before they vote for one.
const freshMax = electionTime / 2

const tendEvery = time.Second // to tell the others of this node, and to promote those that joined

// standing is the term of this node.
type standing struct {
	term agreement.Term
	at   time.Time // when it was known to be the newest
}

// Contact is how to reach a node.
type Contact struct {
	Etcd    string `json:"etcd"`    // HOST:PORT
	Peer    string `json:"peer"`    // HOST:PORT
	URL     string `json:"url"`     // for clients
	Version string `json:"version"` // of the program
	Format  int    `json:"format"`  // newest of batches that the program knows ([agreement.Newest])
}

// Member is a node as the cluster knows it.
type Member struct {
	Name string `json:"name"`
	Contact
	Voter  bool   `json:"voter"`  // whether it counts for a majority; a node that joins does not yet
	Leader bool   `json:"leader"` // whether it orders the log
	Batch  uint64 `json:"batch"`  // the last that it has on its disk
	Size   uint64 `json:"size"`   // of the log behind that batch
	Lag    uint64 `json:"lag"`    // entries that another node has on its disk, and this one lacks
}

// tend tells the cluster how to reach this node, and, where it leads, promotes the nodes that
// joined and have caught up, and removes what no node needs.
func (n *Node) tend() {
	told := (*string)(nil)
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
		if u := n.url.Load(); u != told && n.tellOwn(ctx) == nil {
			told = u
		}
		if n.Leads() {
			n.promote(ctx)
			if err := n.remove(context.Background()); err != nil {
				n.cfg.Logger.Debug("nothing is removed from etcd", "error", err.Error())
			}
		}
		n.watchFormat(ctx)
		cancel()
		select {
		case <-tick.C:
		case <-n.closed:
			return
		}
	}
}

// Show has the node tell the others how to reach it: url is its URL for clients.
func (n *Node) Show(url string) { n.url.Store(&url) }

func (n *Node) tellOwn(ctx context.Context) error {
	url := ""
	if u := n.url.Load(); u != nil {
		url = *u
	}
	return n.tell(ctx, n.cfg.Name, Contact{n.cfg.Members[n.cfg.Name], n.cfg.Peer, url, n.cfg.Version, agreement.Newest()})
}

func (n *Node) tell(ctx context.Context, name string, c Contact) error {
	value, err := json.Marshal(c)
	if err == nil {
		_, err = n.client.Put(ctx, n.key("a/"+name), string(value))
	}
	return err
}

// promote makes voters of the nodes that keep batches. etcd refuses a node that is far behind.
func (n *Node) promote(ctx context.Context) {
	members, err := n.Members(ctx)
	if err != nil {
		return
	}
	for _, m := range members {
		if m.Voter || m.Batch == 0 {
			continue
		}
		if _, err := n.client.MemberPromote(ctx, n.idOf(m.Etcd)); err != nil {
			n.cfg.Logger.Debug("a node does not vote yet", "node", m.Name, "error", err.Error())
		}
	}
}

// Members returns the nodes by name, as this node knows them.
func (n *Node) Members(ctx context.Context) ([]Member, error) {
	found, err := n.client.Get(ctx, n.prefix, clientv3.WithRange(n.key("b")), clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("cluster: read the nodes: %w", err)
	}
	keeps, err := n.client.Get(ctx, n.key("n/"), clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("cluster: read what the nodes keep: %w", err)
	}
	leader, err := n.Leader(ctx)
	if err != nil {
		return nil, err
	}
	var all []Member
	for _, kv := range found.Kvs {
		name, ok := strings.CutPrefix(string(kv.Key), n.key("a/"))
		if !ok {
			continue
		}
		m := Member{Name: name, Leader: name == leader}
		if err := json.Unmarshal(kv.Value, &m.Contact); err != nil {
			return nil, fmt.Errorf("cluster: key %s: %w", kv.Key, err)
		}
		u := peerURL(m.Etcd)
		for _, member := range n.etcd.Server.Cluster().Members() {
			m.Voter = m.Voter || !member.IsLearner && slices.Contains(member.PeerURLs, u.String())
		}
		for _, own := range keeps.Kvs {
			var k kept
			if string(own.Key) == n.key("n/"+name) && json.Unmarshal(own.Value, &k) == nil {
				m.Batch, m.Size = k.Seq, k.Size
			}
		}
		all = append(all, m)
	}
	most := uint64(0)
	for i := range all {
		most = max(most, all[i].Size)
	}
	for i := range all {
		all[i].Lag = most - all[i].Size
	}
	return all, nil
}

// Contact returns how to reach a node; nil: the cluster knows no such node.
func (n *Node) Contact(ctx context.Context, name string) (*Contact, error) {
	found, err := n.client.Get(ctx, n.key("a/"+name), clientv3.WithSerializable())
	if err != nil || len(found.Kvs) == 0 {
		return nil, err
	}
	c := new(Contact)
	return c, json.Unmarshal(found.Kvs[0].Value, c)
}

// Add adds a node that will open with Joins, as one that does not vote, and returns its name and
// the Members to open it with. An empty name stands for a new one. A node of that name that has
// never run gives way; one that has run is [ErrName].
func (n *Node) Add(ctx context.Context, name string, c Contact) (string, map[string]string, error) {
	if err := n.tellOwn(ctx); err != nil { // the other finds at least this one
		return "", nil, fmt.Errorf("cluster: add a node: %w", err)
	}
	if err := n.CheckFormat(ctx); err != nil { // this node reads what stood before it told of itself
		return "", nil, err
	}
	if c.knows() < n.Format() {
		return "", nil, agreement.FormatError("the cluster", n.Format())
	}
	members, err := n.Members(ctx)
	if err != nil {
		return "", nil, err
	}
	for _, m := range members {
		switch {
		case m.Name != name && m.Etcd != c.Etcd && m.Peer != c.Peer:
		case m.Voter || m.Batch > 0:
			return "", nil, fmt.Errorf("%w: there is a node %s at %s: remove it first, or choose another name and address", ErrName, m.Name, m.Peer)
		default:
			if err := n.Remove(ctx, m.Name); err != nil {
				return "", nil, err
			}
			// etcd names a member by its address and the second, and takes no member twice.
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return "", nil, ctx.Err()
			}
		}
	}
	for i := 1; name == ""; i++ {
		if free := "n" + strconv.Itoa(i); !slices.ContainsFunc(members, func(m Member) bool { return m.Name == free }) {
			name = free
		}
	}
	if err := n.learn(ctx, c.Etcd); err != nil {
		return "", nil, fmt.Errorf("cluster: add node %s at %s: %w", name, c.Etcd, err)
	}
	if err := n.tell(ctx, name, c); err != nil {
		return "", nil, fmt.Errorf("cluster: add node %s: %w", name, err)
	}
	if members, err = n.Members(ctx); err != nil {
		return "", nil, err
	}
	all := map[string]string{name: c.Etcd}
	for _, m := range members {
		all[m.Name] = m.Etcd
	}
	return name, all, nil
}

// change changes the members of etcd. etcd refuses that for some seconds after a voter has come or
// another node has begun to lead. A change is lost with a leader that fails, and is tried again:
// done is what etcd says of one that was made.
func change(ctx context.Context, done error, do func(context.Context) error) error {
	for tried := false; ; {
		attempt, cancel := context.WithTimeout(ctx, changeTime)
		err := do(attempt)
		failed := attempt.Err() != nil && err != nil
		cancel()
		switch {
		case tried && errors.Is(err, done):
			return nil
		case !failed && !Passes(err):
			return err
		}
		tried = tried || !errors.Is(err, rpctypes.ErrUnhealthy)
		select {
		case <-time.After(tendEvery):
		case <-ctx.Done():
			return err
		}
	}
}

// learn adds a learner to etcd, once no other node learns. It must not be tried before: etcd notes
// a change that it refuses, and a node that starts later may take it for one that was made. So one
// node at a time adds, as long as its turn.
func (n *Node) learn(ctx context.Context, address string) error {
	turn := strconv.FormatInt(time.Now().Add(turnMax).UnixMilli(), 10)
	for {
		taken, err := n.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(n.key("l")), "=", 0)).
			Then(clientv3.OpPut(n.key("l"), turn)).Else(clientv3.OpGet(n.key("l"))).Commit()
		if err != nil {
			return err
		}
		if taken.Succeeded && !slices.ContainsFunc(n.etcd.Server.Cluster().Members(), func(m *membership.Member) bool { return m.IsLearner }) {
			break
		}
		if err := n.endTurn(ctx, taken); err != nil {
			return err
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return fmt.Errorf("%w: another node joins at the moment: wait until it votes, or remove it", ErrName)
		}
	}
	u := peerURL(address)
	err := change(ctx, rpctypes.ErrPeerURLExist, func(ctx context.Context) error {
		_, err := n.client.MemberAddAsLearner(ctx, []string{u.String()})
		return err
	})
	_, ended := n.client.Delete(context.WithoutCancel(ctx), n.key("l"))
	return errors.Join(err, ended)
}

// turnMax is how long one node may take to add another.
const turnMax = 2 * time.Minute

// endTurn ends the turn of this node, or that of a node that has not ended it in time.
func (n *Node) endTurn(ctx context.Context, taken *clientv3.TxnResponse) error {
	if !taken.Succeeded {
		kv := taken.Responses[0].GetResponseRange().Kvs[0]
		if until, err := strconv.ParseInt(string(kv.Value), 10, 64); err == nil && time.Now().UnixMilli() < until {
			return nil
		}
	}
	_, err := n.client.Delete(ctx, n.key("l"))
	return err
}

// Remove removes another node, which must not run as it again. The nodes that remain must have a
// majority among them; else etcd refuses.
func (n *Node) Remove(ctx context.Context, name string) error {
	if name == n.cfg.Name {
		if len(n.etcd.Server.Cluster().Members()) == 1 {
			return fmt.Errorf("%w: %s is the only node: stop it, and let arl cluster leave make it a single ledger", ErrName, name)
		}
		return fmt.Errorf("%w: %s ends with its removal, before it can answer: remove it at another node", ErrName, name)
	}
	c, err := n.Contact(ctx, name)
	if err != nil {
		return err
	}
	if c == nil {
		return fmt.Errorf("%w: there is no node %s", ErrNoNode, name)
	}
	if id := n.idOf(c.Etcd); id != 0 {
		err = change(ctx, rpctypes.ErrMemberNotFound, func(ctx context.Context) error {
			_, err := n.client.MemberRemove(ctx, id)
			return err
		})
	}
	if err == nil {
		err = change(ctx, nil, func(ctx context.Context) error { // nobody leads for a moment, if the node led
			_, err := n.client.Txn(ctx).Then(clientv3.OpDelete(n.key("a/"+name)), clientv3.OpDelete(n.key("n/"+name))).Commit()
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("cluster: remove node %s: %w", name, err)
	}
	return nil
}

// Term returns the term of this node; 0: it has none.
func (n *Node) Term() int64 {
	if s := n.standing.Load(); s != nil {
		return s.term.ID
	}
	return 0
}

// Fresh returns the term of this node if it was the newest less than [freshMax] ago, and until when
// that is so. It asks the others if it has to, once for all that call. Else the error is
// [agreement.ErrNotLeading], or that of the question.
func (n *Node) Fresh(ctx context.Context) (term int64, until time.Time, _ error) {
	for {
		s := n.standing.Load()
		switch {
		case s == nil:
			return 0, until, agreement.ErrNotLeading
		case time.Since(s.at) < freshMax:
			return s.term.ID, s.at.Add(freshMax), nil
		}
		asked := n.asks.DoChan("", func() (any, error) { return nil, n.refresh(context.WithoutCancel(ctx), s) })
		select {
		case answer := <-asked:
			if answer.Err != nil {
				return 0, until, answer.Err
			}
		case <-ctx.Done():
			return 0, until, ctx.Err()
		}
	}
}

// refresh asks the others whether the term is the newest. It reads, so that a cluster at etcd's
// quota answers, which takes no writes. etcd answers a read by a majority, too.
func (n *Node) refresh(ctx context.Context, s *standing) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	asked := time.Now()
	found, err := n.client.Get(ctx, n.key("t"))
	switch {
	case err != nil:
		return fmt.Errorf("cluster: ask for the newest term: %w", err)
	case len(found.Kvs) != 1 || found.Kvs[0].ModRevision != s.term.ID:
		return agreement.ErrNotLeading
	}
	n.standing.CompareAndSwap(s, &standing{s.term, asked})
	return nil
}

// Reached returns a size of the log that covers everything that was registered when the call began;
// 0: this node has it. It asks by a write, which a node that is cut off cannot make. The error is
// [errNotReached].
func (n *Node) Reached(ctx context.Context) (size uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	answer, err := n.client.Txn(ctx).
		Then(clientv3.OpPut(n.key("c"), n.cfg.Name), clientv3.OpGet(n.key("h")), clientv3.OpGet(n.key("n/"+n.cfg.Name))).
		Commit()
	if err != nil {
		return 0, fmt.Errorf("%w: %v", errNotReached, err)
	}
	last, err := lastNumber(answer.Responses[1].GetResponseRange().Kvs)
	if err != nil {
		return 0, err
	}
	batch, err := n.client.Get(ctx, n.batchKey(last), clientv3.WithSerializable())
	if err != nil {
		return 0, fmt.Errorf("%w: %v", errNotReached, err)
	}
	if len(batch.Kvs) > 0 {
		return agreement.SizeBehind(batch.Kvs[0].Value)
	}
	own := kept{Seq: n.cfg.After}
	if found := answer.Responses[2].GetResponseRange().Kvs; len(found) > 0 {
		if err := json.Unmarshal(found[0].Value, &own); err != nil {
			return 0, fmt.Errorf("cluster: key %s: %w", found[0].Key, err)
		}
	}
	if own.Seq < last {
		return 0, fmt.Errorf("%w: it keeps %d batches of %d", errNotReached, own.Seq, last)
	}
	return own.Size, nil
}

// Permit notes a secret with which one node may join until the instant given.
func (n *Node) Permit(ctx context.Context, secret string, until time.Time) error {
	if _, err := n.client.Put(ctx, n.permitKey(secret), strconv.FormatInt(until.Unix(), 10)); err != nil {
		return fmt.Errorf("cluster: note a token: %w", err)
	}
	return nil
}

// Admit takes a secret of [Node.Permit] back, and returns until when it counted. The error is
// [ErrToken] if it does not count.
func (n *Node) Admit(ctx context.Context, secret string, now time.Time) (until time.Time, err error) {
	key := n.permitKey(secret)
	answer, err := n.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).
		Then(clientv3.OpDelete(key, clientv3.WithPrevKV())).Commit()
	if err != nil {
		return until, fmt.Errorf("cluster: look for a token: %w", err)
	}
	if !answer.Succeeded {
		return until, fmt.Errorf("%w: it was used, or is of another cluster", ErrToken)
	}
	unix, err := strconv.ParseInt(string(answer.Responses[0].GetResponseDeleteRange().PrevKvs[0].Value), 10, 64)
	if until = time.Unix(unix, 0); err != nil || now.After(until) {
		return until, fmt.Errorf("%w: it is too old", ErrToken)
	}
	return until, nil
}

func (n *Node) permitKey(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return n.key("j/" + hex.EncodeToString(sum[:]))
}

// Alone reports whether this node is the only one of its cluster.
func (n *Node) Alone() bool { return len(n.etcd.Server.Cluster().Members()) == 1 }

// Known returns the size of the log behind the last batch that stands, as far as this node knows
// without the others; 0: it knows no batch that it does not keep.
func (n *Node) Known(ctx context.Context) (size uint64, err error) {
	found, err := n.client.Get(ctx, n.key("b/"), clientv3.WithPrefix(), clientv3.WithSerializable(),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(1))
	if err != nil || len(found.Kvs) == 0 {
		return 0, err
	}
	return agreement.SizeBehind(found.Kvs[0].Value)
}
