package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// TLS holds a server's certificate, its key and the authorities of its clients. It reads them
// from files, and can read the files again while the server runs.
type TLS struct {
	cert, key, clientCA string
	current             atomic.Pointer[tls.Config]
}

// LoadTLS reads a server's certificate chain and key from PEM files. clientCA, if not empty, is
// a PEM file of certificate authorities. Then every client must present a certificate that one
// of them has signed. TLS 1.3 only.
func LoadTLS(cert, key, clientCA string) (*TLS, error) {
	t := &TLS{cert: cert, key: key, clientCA: clientCA}
	c, err := t.load()
	if err != nil {
		return nil, err
	}
	t.current.Store(c)
	return t, nil
}

// Reload reads the files again. New connections use the new contents, and open connections
// stay. After an error the old contents stay in use. A certificate that has expired by now is
// an error too, since the old certificate may still be valid.
func (t *TLS) Reload(now time.Time) error {
	c, err := t.load()
	if err != nil {
		return err
	}
	if leaf := c.Certificates[0].Leaf; now.After(leaf.NotAfter) {
		return fmt.Errorf("server: load certificate: %s expired at %s", t.cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	t.current.Store(c)
	return nil
}

// Leaf returns the server's certificate in use.
func (t *TLS) Leaf() *x509.Certificate { return t.current.Load().Certificates[0].Leaf }

func (t *TLS) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fmt.Errorf("server: load certificate: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}
	if t.clientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.clientCA)
	if err != nil {
		return nil, fmt.Errorf("server: load client authorities: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("server: load client authorities: no certificate in %s", t.clientCA)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	// The authorities of an earlier load would admit a resumed session.
	c.SessionTicketsDisabled = true
	return c, nil
}

// Config returns the configuration of a listener. Each handshake takes the configuration in
// use at that time.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load(), nil },
	}
}
