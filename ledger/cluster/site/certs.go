package site

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"slices"
	"time"

	"recoveryledger/ledger/durable"
)

// The files of a site with certificates and keys.
const (
	caCert   = "ca.crt"
	nodeCert = "node.crt"
	nodeKey  = "node.key"
	caKey    = "ca.key"
)

// validity is that of all certificates: a cluster whose certificates end, ends.
const validity = 20 * 365 * 24 * time.Hour

const pemCertificate, pemRequest, pemKey = "CERTIFICATE", "CERTIFICATE REQUEST", "PRIVATE KEY"

// CAFile returns the path of the certificate of the CA.
func (s *Site) CAFile() string { return s.file(caCert) }

// CertFile returns the path of the certificate of this node.
func (s *Site) CertFile() string { return s.file(nodeCert) }

// KeyFile returns the path of the key of that certificate.
func (s *Site) KeyFile() string { return s.file(nodeKey) }

func (s *Site) makeCA() error {
	key, err := newKey(s.file(caKey))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: fmt.Sprintf("arl cluster %x", s.Incarnation)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("site: make the CA: %w", err)
	}
	return durable.Write(s.file(caCert), encode(pemCertificate, der), 0o600)
}

// Request makes a key for this node, unless there is one, and returns the request for its
// certificate.
func (s *Site) Request() ([]byte, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	key, err := readKey(s.file(nodeKey))
	if errors.Is(err, os.ErrNotExist) {
		key, err = newKey(s.file(nodeKey))
	}
	if err != nil {
		return nil, err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: s.Name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	for _, address := range []string{s.Peer, s.Etcd} {
		host := Host(address)
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if !slices.Contains(template.DNSNames, host) {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	return encode(pemRequest, der), nil
}

// Certify signs a request.
func (s *Site) Certify(request []byte) ([]byte, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != pemRequest {
		return nil, errors.New("site: no request for a certificate")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = asked.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	ca, err := tls.LoadX509KeyPair(s.file(caCert), s.file(caKey))
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: asked.Subject, IPAddresses: asked.IPAddresses, DNSNames: asked.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: ca.Leaf.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, asked.PublicKey, ca.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	return encode(pemCertificate, der), nil
}

// Digest returns the digest by which a token names the CA.
func (s *Site) Digest() ([sha256.Size]byte, error) {
	block, err := readPEM(s.file(caCert), pemCertificate)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(block), nil
}

// TLS returns how this node talks to the others: as a server that may be asked without a
// certificate, and as a client.
func (s *Site) TLS() (server, client *tls.Config, err error) {
	own, err := tls.LoadX509KeyPair(s.file(nodeCert), s.file(nodeKey))
	if err != nil {
		return nil, nil, fmt.Errorf("site: %w", err)
	}
	block, err := readPEM(s.file(caCert), pemCertificate)
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(block)
	if err != nil {
		return nil, nil, fmt.Errorf("site: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	own.Certificate = append(own.Certificate, block) // a node that joins compares its digest
	server = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS13}
	return server, &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: pool, MinVersion: tls.VersionTLS13}, nil
}

// ErrOther reports a node of another cluster than the one that a token names.
var ErrOther = errors.New("site: the node is not of the cluster that the token names")

// Pinned returns how a node that joins talks to a node of the cluster whose CA has the digest. A
// connection to another node fails with [ErrOther].
func Pinned(digest [sha256.Size]byte, host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, c := range state.PeerCertificates {
				if sha256.Sum256(c.Raw) != digest {
					continue
				}
				pool := x509.NewCertPool()
				pool.AddCert(c)
				_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
				return err
			}
			return ErrOther
		},
	}
}

// Host returns the host of an address HOST:PORT.
func Host(address string) string {
	u := url.URL{Host: address}
	return u.Hostname()
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("site: make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("site: make a key: %w", err)
	}
	return key, durable.Write(path, encode(pemKey, der), 0o600)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	block, err := readPEM(path, pemKey)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("site: read %s: %w", path, err)
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("site: read %s: not a key of ECDSA", path)
	}
	return own, nil
}

func readPEM(path, of string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	block, rest := pem.Decode(content)
	if block == nil || block.Type != of || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("site: %s is not one block %s in PEM", path, of)
	}
	return block.Bytes, nil
}

func encode(of string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: of, Bytes: der})
}

func serial() *big.Int {
	number := make([]byte, 16)
	_, _ = rand.Read(number) // never fails
	return new(big.Int).SetBytes(number)
}
