package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// LoadTLS reads a server's certificate chain and key from PEM files. With
// clientCA, a PEM file of certificate authorities, every client must present a
// certificate that one of them has signed. TLS 1.3 only.
func LoadTLS(cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("server: load certificate: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	if clientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, fmt.Errorf("server: load client authorities: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("server: load client authorities: %w", errors.New("no certificate in "+clientCA))
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}
