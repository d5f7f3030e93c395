package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/cluster/site"
)

// The addresses of a node, unless flags say others.
const (
	peerDefault = "127.0.0.1:8088"
	etcdDefault = "127.0.0.1:8089"
)

// listen opens the port for the other nodes. The others know the node by its name and addresses, so
// a flag that says another one is refused.
func (s *Serving) listen(ctx context.Context) (err error) {
	for _, f := range []struct{ flag, given, is string }{
		{"node", s.name, s.site.Name}, {"peer-listen", s.peerListen, s.site.PeerListen},
		{"peer-advertise", s.advertise, s.site.Peer}, {"etcd-listen", s.etcdAddr, s.site.EtcdListen},
	} {
		if f.given != "" && f.given != f.is && !anyPort(f.given, f.is) {
			return exit.Remedied("leave the flag out; to change it, remove the node, and let it join anew with an empty directory (docs/cluster.md)",
				exit.Usagef("--%s %s: this node has %s", f.flag, f.given, f.is))
		}
	}
	s.peers, err = listenAt(ctx, s.site.PeerListen)
	return err
}

// anyPort reports whether given has port 0, and the host of the address is.
func anyPort(given, is string) bool {
	host, port, err := net.SplitHostPort(given)
	own, _, _ := net.SplitHostPort(is)
	return err == nil && port == "0" && host == own
}

// listenAt opens the port of --peer-listen.
func listenAt(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, exit.Remedied("pass --peer-listen with another address, or end the process that has the port", exit.With(exit.Config, fmt.Errorf("--peer-listen: %w", err)))
	}
	return l, nil
}

// readdress takes the addresses of the flags for the first node of a cluster that nobody knows yet.
func (s *Serving) readdress(ctx context.Context) (err error) {
	if s.peerListen == "" {
		s.peerListen, s.advertise = s.site.PeerListen, cmp.Or(s.advertise, s.site.Peer)
	}
	s.etcdAddr = cmp.Or(s.etcdAddr, s.site.EtcdListen)
	if s.site.Addresses, err = s.addresses(ctx); err != nil {
		return err
	}
	s.site.Members = map[string]string{s.site.Name: s.site.Etcd}
	return s.site.Save()
}

// release lets the port for etcd go, if it is held.
func (s *Serving) release() error {
	held := s.held
	if s.held = nil; held == nil {
		return nil
	}
	return held()
}

// addresses finds the addresses of a new node. A port 0 becomes a free one, which stays.
func (s *Serving) addresses(ctx context.Context) (a site.Addresses, err error) {
	var config net.ListenConfig
	if s.peers, err = listenAt(ctx, cmp.Or(s.peerListen, peerDefault)); err != nil {
		return a, err
	}
	a.PeerListen = s.peers.Addr().String()
	free, err := config.Listen(ctx, "tcp", cmp.Or(s.etcdAddr, etcdDefault))
	if err != nil {
		return a, exit.With(exit.Config, err)
	}
	a.EtcdListen = free.Addr().String()
	at, _ := free.Addr().(*net.TCPAddr) // of a listener for tcp
	if err := errors.Join(s.release(), free.Close()); err != nil {
		return a, err
	}
	if s.held, err = hold(at); err != nil { // etcd opens it itself
		return a, exit.With(exit.Config, fmt.Errorf("--etcd-listen %s: %w", a.EtcdListen, err))
	}
	a.Peer = cmp.Or(s.advertise, a.PeerListen)
	host, _, err := net.SplitHostPort(a.Peer)
	if err != nil {
		return a, exit.Usagef("--peer-advertise %s: want HOST:PORT", a.Peer)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return a, exit.Usagef("other nodes do not find this one at %s: pass --peer-advertise HOST:PORT", a.Peer)
	}
	_, port, err := net.SplitHostPort(a.EtcdListen)
	a.Etcd = net.JoinHostPort(host, port)
	return a, err
}
