package peer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/merkle"
)

const origin = "ledger.example/peer"

// quota is how large the file of etcd may be.
const quota = 8 << 20

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// member is a node of a cluster, with a log that the test makes up.
type member struct {
	t       *testing.T
	site    *site.Site
	node    *cluster.Node
	server  *peer.Server
	client  *peer.Client
	roots   []merkle.Hash // by size
	keys    string
	accused chan error
	damaged atomic.Bool // its database cannot be copied
}

// address returns a free address on loopback.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

// found founds a cluster of one node.
func found(t *testing.T) *member {
	t.Helper()
	etcd := address(t)
	port := address(t)
	s, err := site.Found(t.TempDir(), origin, "n1", site.Addresses{PeerListen: port, Peer: port, EtcdListen: etcd, Etcd: etcd})
	must(t, err)
	must(t, s.Save())
	return open(t, s, 3)
}

// open serves a node whose log has so many entries.
func open(t *testing.T, s *site.Site, size byte) *member {
	t.Helper()
	return openLarge(t, s, size, quota)
}

// openLarge opens a node whose etcd may have a file of so many bytes.
func openLarge(t *testing.T, s *site.Site, size byte, quota int64) *member {
	t.Helper()
	m := &member{t: t, site: s, keys: t.TempDir(), accused: make(chan error, 1)}
	for i := range size + 1 {
		m.roots = append(m.roots, merkle.Hash{i})
	}
	must(t, os.WriteFile(filepath.Join(m.keys, "ledger.key"), []byte("secret"), 0o600))
	var err error
	m.node, err = cluster.Open(&cluster.Config{
		Dir: s.EtcdDir(), Name: s.Name, Members: s.Members, Joins: s.Joined, Listen: s.EtcdListen, Peer: s.Peer,
		CertFile: s.CertFile(), KeyFile: s.KeyFile(), CAFile: s.CAFile(), Origin: s.Origin, Incarnation: s.Incarnation,
		Quota: quota, Fatal: func(err error) { t.Error(err); select {} },
	})
	must(t, err)
	m.node.Show("http://" + s.Name)
	m.node.Terms(t.Context()) // it begins one where it leads
	m.client, err = peer.NewClient(s)
	must(t, err)
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	m.server, err = peer.New(peer.Config{
		Node: m.node, Site: s, Keys: m.keys, Show: m.show, Logger: logger,
		Accused: func(err error) { m.accused <- err },
		Copy: func(dir string) error {
			if m.damaged.Load() {
				return errors.New("000005.sst is damaged")
			}
			return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("database"), 0o600))
		},
	})
	must(t, err)
	listener, err := net.Listen("tcp", s.PeerListen)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- m.server.Run(t.Context(), listener) }()
	t.Cleanup(func() {
		m.server.Close()
		must(t, <-ended)
		must(t, m.node.Close())
	})
	return m
}

func (m *member) show(size uint64) (*cluster.Shown, error) {
	last := uint64(len(m.roots) - 1)
	s := &cluster.Shown{Node: m.site.Name, Incarnation: m.site.Incarnation, Head: merkle.Head{Size: last, Root: m.roots[last]}, Clock: time.Now().UnixMilli(), Room: true}
	if size <= last {
		s.At = &m.roots[size]
	}
	return s, nil
}

// join has another node join, whose log has so many entries.
func (m *member) join(size byte) *member {
	m.t.Helper()
	text, err := m.client.Token(m.t.Context(), m.site.Peer)
	must(m.t, err)
	token, err := site.ParseToken(text)
	must(m.t, err)
	etcd, port := address(m.t), address(m.t)
	s := &site.Site{Dir: site.Path(m.t.TempDir()), Addresses: site.Addresses{PeerListen: port, Peer: port, EtcdListen: etcd, Etcd: etcd}}
	must(m.t, os.MkdirAll(s.Dir, 0o700))
	request, err := s.Request()
	must(m.t, err)
	asked := &peer.Joining{Request: request, Contact: cluster.Contact{Etcd: etcd, Peer: port}}
	admitted, err := peer.Join(m.t.Context(), token, asked)
	must(m.t, err)
	if got := string(admitted.Keys["ledger.key"]); got != "secret" {
		m.t.Errorf("the key is %q", got)
	}
	if _, err := peer.Join(m.t.Context(), token, asked); err == nil || !strings.Contains(err.Error(), "it was used") {
		m.t.Errorf("a token counts twice: %v", err)
	}
	must(m.t, s.Take(admitted))
	c, err := peer.NewClient(s)
	must(m.t, err)
	copied := filepath.Join(m.t.TempDir(), "db")
	m.damaged.Store(true)
	var refused *peer.Refused
	if err := c.Copy(m.t.Context(), token.Peer, copied); !errors.As(err, &refused) || refused.Status != http.StatusInternalServerError || !strings.Contains(err.Error(), "000005.sst is damaged") {
		m.t.Errorf("a damaged database is copied: %v", err)
	}
	m.damaged.Store(false)
	must(m.t, c.Copy(m.t.Context(), token.Peer, copied))
	if text, err := os.ReadFile(filepath.Join(copied, "CURRENT")); err != nil || string(text) != "database" {
		m.t.Errorf("the copy is %q, %v", text, err)
	}
	return open(m.t, s, size)
}

// TestPeers: a node joins, takes a copy, and is shown. Requests reach the node that leads, and
// strangers get nothing.
func TestPeers(t *testing.T) {
	a := found(t)
	b := a.join(2)
	for _, of := range []*member{a, b} { // each knows both, and who leads
		for began := time.Now(); ; {
			status, err := b.client.Status(t.Context(), of.site.Peer)
			must(t, err)
			if len(status.Members) == 2 && status.Leader == "n1" && status.Node == of.site.Name {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%+v", status)
			}
		}
	}
	shown, err := a.client.Head(t.Context(), b.site.Peer, 1)
	if err != nil || shown.Node != "n2" || shown.Size != 2 || *shown.At != b.roots[1] {
		t.Errorf("%+v, %v", shown, err)
	}
	if shown, err = a.client.Head(t.Context(), b.site.Peer, 3); err != nil || shown.At != nil {
		t.Errorf("a size beyond the log: %+v, %v", shown, err)
	}

	// The API comes later than the port.
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: site.Pinned(digest(t, a.site), "127.0.0.1")}}
	t.Cleanup(stranger.CloseIdleConnections)
	for path, want := range map[string]int{"/status": 403, "/head?size=0": 403, "/copy": 403, "/api/v1/head": 403} {
		response, err := stranger.Get("https://" + a.site.Peer + path)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != want {
			t.Errorf("a stranger gets %d for %s", response.StatusCode, path)
		}
	}
	router, err := peer.NewRouter(b.node, b.site, slog.New(slog.DiscardHandler), func(context.Context, uint64) error { return nil })
	must(t, err)
	for _, served := range []bool{false, true} {
		want := http.StatusServiceUnavailable
		if served {
			want = http.StatusTeapot
			a.server.Answer(peer.Passed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if local := r.Context().Value(http.LocalAddrContextKey); local != nil || r.RemoteAddr != "192.0.2.7:1" {
					t.Errorf("passed on by %s to %v", r.RemoteAddr, local)
				}
				w.WriteHeader(want)
			})))
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/tasks", http.NoBody)
		r.RemoteAddr = "192.0.2.7:1"
		if err := router.Forward(w, r); err != nil || w.Code != want {
			t.Errorf("passed on: %d, %v, want %d", w.Code, err, want)
		}
	}
	asked := 0
	if !router.Await(t.Context(), func() bool { asked++; return asked > 1 }) {
		t.Error("a node that leads is not taken for one")
	}
	if router.Await(t.Context(), func() bool { return false }) {
		t.Error("a node leads beside another one")
	}
	begins, err := peer.NewRouter(a.node, a.site, slog.New(slog.DiscardHandler), func(context.Context, uint64) error { return nil })
	must(t, err)
	if asked = 0; !begins.Await(t.Context(), func() bool { asked++; return asked > 3 }) {
		t.Errorf("a node that begins to lead is not waited for: asked %d times", asked)
	}
	for what, do := range map[string]func() error{
		"remove": func() error { _, err := a.client.Remove(t.Context(), b.site.Peer, "n9"); return err },
		"lead":   func() error { _, err := a.client.Lead(t.Context(), b.site.Peer, "n9", false); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "no node n9") {
			t.Errorf("%s of a node that is none: %v", what, err)
		}
	}
}

func digest(t *testing.T, s *site.Site) [32]byte {
	t.Helper()
	d, err := s.Digest()
	must(t, err)
	return d
}

// TestWatcher: nodes with one log find nothing, a shorter log included. Two roots of one size are
// found by each, whichever looks, and the other is told.
func TestWatcher(t *testing.T) {
	a := found(t)
	b := a.join(2)
	for began := time.Now(); ; {
		if members, err := a.node.Members(t.Context()); err == nil && len(members) == 2 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the other node is not known")
		}
	}
	watch := func(m *member) (*peer.Evidence, []*cluster.Shown, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []*cluster.Shown
		w := &peer.Watcher{Node: m.node, Client: m.client, Show: m.show, Round: func(others []*cluster.Shown) {
			if seen = others; len(others) == 1 {
				cancel()
				if others[0].Ahead.Abs() > 5*time.Second {
					t.Errorf("clock: %v", others[0].Ahead)
				}
			}
		}}
		found, err := w.Run(ctx)
		return found, seen, err
	}
	for _, m := range []*member{a, b} {
		if found, seen, err := watch(m); found != nil || err != nil || len(seen) != 1 {
			t.Errorf("%s: %+v, %+v, %v", m.site.Name, found, seen, err)
		}
	}
	b.roots[2] = merkle.Hash{99}
	for m, other := range map[*member]*member{a: b, b: a} {
		found, _, err := watch(m)
		if !errors.Is(err, agreement.ErrDiverged) || found == nil || found.Own.Node != m.site.Name || found.Peer.Node != other.site.Name {
			t.Fatalf("%s: %+v, %v", m.site.Name, found, err)
		}
		for _, root := range []merkle.Hash{{2}, {99}} {
			if !strings.Contains(err.Error(), fmt.Sprint(root)) {
				t.Errorf("%s: %v does not say %s", m.site.Name, err, root)
			}
		}
		if told := <-other.accused; !errors.Is(told, agreement.ErrDiverged) {
			t.Errorf("%s is told %v", other.site.Name, told)
		}
	}
}
