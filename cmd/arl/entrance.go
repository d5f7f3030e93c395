package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// entrance is how a ledger is reached, and what a new one begins with: all that
// can be wrong with the flags of arl serve. It is made before the data directory
// is, so that a mistake leaves nothing behind.
type entrance struct {
	listener    net.Listener
	url         string      // for this machine
	tls         *server.TLS // nil: plain HTTP
	asksClients bool        // for certificates
	certificate string      // file of the server's, absolute; empty: plain HTTP
	policy      *entry.Policy
	alive       *life // what it tells the log of itself
	policyErr   error // of the policy's file, which a ledger that has a genesis does not need
}

// prepareServe looks at everything that the first start depends on, but for the
// data directory itself.
func (a *app) prepareServe(ctx context.Context, o *serveOptions) (*entrance, error) {
	if err := cmp.Or(ledger.CheckSystem(runtime.GOOS), o.check()); err != nil {
		return nil, err
	}
	e := &entrance{}
	e.policy, e.policyErr = foundingPolicy(o.policy)
	if _, err := os.Stat(filepath.Join(o.data, "db")); errors.Is(err, fs.ErrNotExist) && e.policyErr != nil {
		return nil, e.policyErr
	}
	if err := e.loadTLS(o); err != nil {
		return nil, withExit(exitConfig, err)
	}
	home, err := a.homeDir()
	if err == nil {
		err = os.MkdirAll(filepath.Join(home, "keys"), 0o700)
	}
	if err != nil {
		return nil, withExit(exitConfig, err)
	}
	var listen net.ListenConfig
	if e.listener, err = listen.Listen(ctx, "tcp", o.listen); err != nil {
		return nil, withExit(exitConfig, err)
	}
	e.url = listenURL(o.listen, e.listener.Addr(), e.tls != nil)
	return e, nil
}

// check is about what the command line says by itself.
func (o *serveOptions) check() error {
	if o.data == "" {
		return usage("--data is empty: name the data directory")
	}
	if o.origin != "" {
		if err := keys.CheckOrigin(o.origin); err != nil {
			return usage("--origin: %w", err)
		}
	}
	if math.IsNaN(o.rate) || o.rate == 0 {
		return usage("--rate %v: want requests a second, or a negative number for no limit", o.rate)
	}
	if o.tlsClientCA != "" && o.tlsCert == "" {
		return usage("--tls-client-ca asks clients for certificates, but the server has none: pass --tls-cert and --tls-key too")
	}
	return checkPair(o.tlsCert, o.tlsKey)
}

// checkPair is about the flags of a certificate and its key.
func checkPair(cert, key string) error {
	if (cert == "") != (key == "") {
		return usage("--tls-cert and --tls-key are a pair: pass both")
	}
	return nil
}

// foundingPolicy reads the policy of a new ledger; by default it is ours.
func foundingPolicy(path string) (*entry.Policy, error) {
	if path == "" {
		return coord.Genesis(""), nil // the origin is not known yet
	}
	policy, err := loadPolicy(path)
	if err == nil && policy.Authority != nil {
		err = withExit(exitConfig, errors.New("a genesis policy is signed by the authority's key that is made here: leave authority out of the file, "+
			"and hand over later with arl policy apply"))
	}
	if err == nil && policy.LedgerKeys != nil {
		err = withExit(exitConfig, errors.New("the key of a new ledger is made here: leave ledger_keys out of the file, and name it where another is to follow"))
	}
	return policy, err
}

func (e *entrance) loadTLS(o *serveOptions) (err error) {
	if o.tlsCert == "" {
		return nil
	}
	if e.tls, err = server.LoadTLS(o.tlsCert, o.tlsKey, o.tlsClientCA); err != nil {
		return err
	}
	e.asksClients = o.tlsClientCA != ""
	e.certificate, err = filepath.Abs(o.tlsCert)
	return err
}

// listenURL is where this machine finds the server: at the host that it was told
// to listen on, or on loopback if that is every address.
func listenURL(listen string, bound net.Addr, encrypted bool) string {
	scheme := "http://"
	if encrypted {
		scheme = "https://"
	}
	host, _, _ := net.SplitHostPort(listen) // it is being listened on
	_, port, _ := net.SplitHostPort(bound.String())
	switch ip := net.ParseIP(host); {
	case host == "" || ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return scheme + net.JoinHostPort(host, port)
}
