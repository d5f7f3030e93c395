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

	"recoveryledger/api/certificate"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/service"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// serveSetup has the listener of a ledger, and the policy of a new ledger. It is made before the
// data directory. An error in the flags of arl serve is found then, so that a mistake leaves
// nothing behind.
type serveSetup struct {
	bound       service.Listener
	listener    net.Listener       // bound, or what closes its connections
	url         string             // of the server, for this machine
	tls         *certificate.Files // nil: plain HTTP
	asksClients bool               // whether clients must present certificates
	certificate string             // absolute path of the server's; empty: plain HTTP
	policy      *entry.Policy
	alive       *node.Life // writes lines about the process
	opened      func()     // leaves the listener to the server
	policyErr   error      // of the policy file, which a ledger with a genesis does not need
}

// prepareServe checks everything that the first start depends on, except for the data directory.
func (a *app) prepareServe(ctx context.Context, o *serveOptions) (*serveSetup, error) {
	if err := cmp.Or(disk.CheckSystem(runtime.GOOS), o.check(), o.cell.Check(), o.publishing.Check(), o.notifying.Check(a.ReadInput)); err != nil {
		return nil, err
	}
	e := &serveSetup{}
	e.policy, e.policyErr = node.FoundingPolicy(o.policy, o.index)
	if _, err := os.Stat(filepath.Join(o.data, "db")); errors.Is(err, fs.ErrNotExist) && e.policyErr != nil {
		return nil, e.policyErr
	}
	if err := e.loadTLS(o); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	home, err := a.homeDir()
	if err == nil {
		err = os.MkdirAll(filepath.Join(home, "keys"), 0o700)
	}
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	var asked string
	if e.bound, asked, err = service.Listen(ctx, o.listen); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	e.listener = e.bound
	e.url = node.ListenURL(asked, e.listener.Addr(), e.tls != nil)
	return e, nil
}

// check checks the command line alone.
func (o *serveOptions) check() error {
	if o.data == "" {
		return exit.Usagef("--data is empty: name the data directory")
	}
	if o.origin != "" {
		if err := keys.CheckOrigin(o.origin); err != nil {
			return exit.Usagef("--origin: %w", err)
		}
	}
	if math.IsNaN(o.rate) || o.rate == 0 {
		return exit.Usagef("--rate %v: want requests a second, or a negative number for no limit", o.rate)
	}
	if o.tlsClientCA != "" && o.tlsCert == "" {
		return exit.Usagef("--tls-client-ca asks clients for certificates, but the server has no certificate: pass --tls-cert and --tls-key too")
	}
	if err := o.readWitnesses(); err != nil {
		return err
	}
	return access.CheckPair(o.tlsCert, o.tlsKey)
}

func (e *serveSetup) loadTLS(o *serveOptions) (err error) {
	if o.tlsCert == "" {
		return nil
	}
	if e.tls, err = certificate.Load(o.tlsCert, o.tlsKey, o.tlsClientCA); err != nil {
		return err
	}
	e.asksClients = o.tlsClientCA != ""
	e.certificate, err = filepath.Abs(o.tlsCert)
	return err
}

// started returns what arl serve prints when the ledger takes entries.
func (e *serveSetup) started(n *node.Node, root verify.Root, begins bool) *node.Started {
	return &node.Started{URL: e.url, Origin: n.Origin, VerifierKeys: root.LedgerKeys, Genesis: root.Genesis.String(), Data: n.Dir,
		Begins: begins, Certificate: e.certificate, AsksClients: e.asksClients}
}
