// Package certificate holds the certificate of a server, which is renewed while the server runs.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Files holds a server's certificate, its key and the authorities of its clients. It reads them
// from files, and can read the files again while the server runs.
type Files struct {
	cert, key, clientCA string
	current             atomic.Pointer[tls.Config]
}

// Load reads a server's certificate chain and key from PEM files. clientCA, if not empty, is
// a PEM file of certificate authorities. Then every client must present a certificate that one
// of them has signed. TLS 1.3 only.
func Load(cert, key, clientCA string) (*Files, error) {
	f := &Files{cert: cert, key: key, clientCA: clientCA}
	c, err := f.load()
	if err != nil {
		return nil, err
	}
	f.current.Store(c)
	return f, nil
}

// Reload reads the files again. New connections use the new contents, and open connections
// stay. After an error the old contents stay in use. A certificate that has expired by now is
// an error too, since the old certificate may still be valid.
func (f *Files) Reload(now time.Time) error {
	c, err := f.load()
	if err != nil {
		return err
	}
	if leaf := c.Certificates[0].Leaf; now.After(leaf.NotAfter) {
		return fmt.Errorf("certificate: load certificate: %s expired at %s", f.cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	f.current.Store(c)
	return nil
}

// Leaf returns the server's certificate in use.
func (f *Files) Leaf() *x509.Certificate { return f.current.Load().Certificates[0].Leaf }

func (f *Files) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("certificate: load certificate: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}
	if f.clientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, fmt.Errorf("certificate: load client authorities: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate: load client authorities: no certificate in %s", f.clientCA)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	// The authorities of an earlier load would admit a resumed session.
	c.SessionTicketsDisabled = true
	return c, nil
}

// Config returns the configuration of a listener. Each handshake takes the configuration in
// use at that time.
func (f *Files) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current.Load(), nil },
	}
}
