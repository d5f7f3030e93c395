package site_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"

	"recoveryledger/ledger/cluster/site"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

var at = site.Addresses{Peer: "127.0.0.1:8088", Etcd: "node.example:8089"}

func found(t *testing.T) (*site.Site, string) {
	t.Helper()
	data := t.TempDir()
	s, err := site.Found(data, "ledger.example", "n1", at)
	must(t, err)
	must(t, s.Save())
	return s, data
}

// TestSite: what was saved is there again, and a directory without a site says so.
func TestSite(t *testing.T) {
	s, data := found(t)
	again, err := site.Load(data)
	must(t, err)
	if again.Incarnation != s.Incarnation || string(again.Secret) != string(s.Secret) || again.Peer != at.Peer || again.Members["n1"] != at.Etcd || again.Begun() {
		t.Errorf("%+v", again)
	}
	if _, err := site.Load(t.TempDir()); !errors.Is(err, site.ErrNone) {
		t.Errorf("no site: %v", err)
	}
	must(t, os.WriteFile(site.Path(data)+"/cluster.json", []byte("{"), 0o600))
	if _, err := site.Load(data); err == nil || errors.Is(err, site.ErrNone) {
		t.Errorf("half a file: %v", err)
	}
}

// connect has a client reach a server.
func connect(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	must(t, err)
	defer listener.Close()
	answered := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
		answered <- err
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	asked := tls.Client(conn, client).HandshakeContext(t.Context())
	must(t, conn.Close())
	return errors.Join(asked, <-answered)
}

// TestAdmission admits a node. Both know one another then, and neither knows a node of another
// cluster. Before, the digest of a token tells the cluster from another one.
func TestAdmission(t *testing.T) {
	first, _ := found(t)
	other, _ := found(t)
	joins := &site.Site{Dir: site.Path(t.TempDir()), Name: "n2", Addresses: at}
	request, err := joins.Request()
	must(t, err)
	a, err := first.Admits("n2", request, map[string]string{"n1": at.Etcd, "n2": "x:1"}, map[string][]byte{"ledger.key": []byte("k")})
	must(t, err)
	must(t, joins.Take(a))
	if joins.Incarnation != first.Incarnation || !joins.Joined || len(joins.Members) != 2 {
		t.Errorf("%+v", joins)
	}
	server, _, err := first.TLS()
	must(t, err)
	_, own, err := joins.TLS()
	must(t, err)
	_, foreign, err := other.TLS()
	must(t, err)
	own.ServerName, foreign.ServerName = "node.example", "node.example"
	must(t, connect(t, server, own))
	if connect(t, server, foreign) == nil {
		t.Error("a node of another cluster is let in")
	}
	for _, of := range []*site.Site{first, other} {
		token, err := of.NewToken()
		must(t, err)
		read, err := site.ParseToken(token.String())
		must(t, err)
		if *read != *token {
			t.Errorf("%+v is read as %+v", token, read)
		}
		if err := connect(t, server, site.Pinned(read.CA, "127.0.0.1")); (err == nil) != (of == first) {
			t.Errorf("the right cluster %v: %v", of == first, err)
		}
	}
	digest, err := first.Digest()
	must(t, err)
	if connect(t, server, site.Pinned(digest, "elsewhere.example")) == nil {
		t.Error("a certificate for another host is taken")
	}
	if _, err := first.Certify([]byte("no request")); err == nil {
		t.Error("no request is certified")
	}
}

// FuzzParseToken looks for texts that are read as a token, and are not what is written.
func FuzzParseToken(f *testing.F) {
	f.Add((&site.Token{Peer: "127.0.0.1:8088", Secret: "S"}).String())
	f.Add("arl1.a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := site.ParseToken(text)
		if err != nil {
			if !errors.Is(err, site.ErrToken) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if again, err := site.ParseToken(token.String()); err != nil || *again != *token {
			t.Errorf("%q is read as %+v, and that as %+v, %v", text, token, again, err)
		}
	})
}
