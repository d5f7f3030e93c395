package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
)

const origin = "ledger.example/cluster"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// site is the directories of the nodes of a cluster on this machine.
type site struct {
	t       *testing.T
	dir     string
	host    net.IP
	members map[string]string
	ca      *x509.Certificate
	caKey   *ecdsa.PrivateKey
	fatal   chan error
}

// newSite makes certificates and addresses for nodes of those names.
func newSite(t *testing.T, names ...string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), host: net.IPv4(127, 0, 0, 1), members: map[string]string{}, fatal: make(chan error, 10)}
	if runtime.GOOS == "linux" { // an address where nobody else takes a port while a node is away
		part := make([]byte, 2)
		_, err := rand.Read(part)
		must(t, err)
		s.host = net.IPv4(127, 1, part[0], part[1]|1)
	}
	s.ca, s.caKey = s.certify("ca", nil)
	for _, name := range names {
		listener, err := net.Listen("tcp", net.JoinHostPort(s.host.String(), "0"))
		must(t, err)
		s.members[name] = listener.Addr().String()
		must(t, listener.Close())
		s.certify(name, s.ca)
	}
	return s
}

// certify writes a key and a certificate, signed by the CA or, for the CA, by itself.
func (s *site) certify(name string, by *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(s.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{s.host, net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: by == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by, s.caKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(s.t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(s.t, err)
	must(s.t, os.WriteFile(s.path(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(s.t, os.WriteFile(s.path(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	made, err := x509.ParseCertificate(der)
	must(s.t, err)
	return made, key
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// config is that of a node of the site.
func (s *site) config(name string) *cluster.Config {
	return &cluster.Config{
		Dir: s.path(name + ".etcd"), Name: name, Members: maps.Clone(s.members),
		CertFile: s.path(name + ".crt"), KeyFile: s.path(name + ".key"), CAFile: s.path("ca.crt"),
		Origin: origin, Incarnation: agreement.Incarnation{1},
		Fatal:  func(err error) { s.fatal <- err; select {} },
		Logger: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
}

// open starts a node.
func (s *site) open(name string) *cluster.Node {
	s.t.Helper()
	n, err := cluster.Open(s.config(name))
	must(s.t, err)
	return n
}

// term waits for a term of the node.
func term(t *testing.T, terms <-chan agreement.Term) agreement.Term {
	t.Helper()
	for {
		select {
		case got := <-terms:
			if got.ID != 0 {
				return got
			}
		case <-t.Context().Done():
			t.Fatal("no term")
		}
	}
}

// take reads batches from number seq on.
func take(t *testing.T, n *cluster.Node, seq uint64, count int) (batches []string, err error) {
	t.Helper()
	for batch, err := range n.Batches(t.Context(), seq) {
		if err != nil {
			return batches, err
		}
		if batches = append(batches, string(batch)); len(batches) == count {
			break
		}
	}
	return batches, nil
}

func named(seq uint64) []byte { return fmt.Appendf(nil, "batch %d", seq) }
