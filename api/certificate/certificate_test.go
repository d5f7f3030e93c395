package certificate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/certificate"
)

// write puts a certificate of a name, and its key, into a directory.
func write(t *testing.T, dir, name string, serial int64, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: until.Add(-time.Hour), NotAfter: until, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReload renews a certificate. A renewed one that has expired, or whose key is another's, is
// refused by the name of its file, and the one in use stays.
func TestReload(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	file := func(name string) string { return filepath.Join(dir, name) }
	write(t, dir, "server", 1, now.Add(time.Hour))
	f, err := certificate.Load(file("server.pem"), file("server.key"), "")
	must(t, err)
	serves := func(want int64) {
		t.Helper()
		inUse, err := f.Config().GetConfigForClient(nil)
		must(t, err)
		if got := inUse.Certificates[0].Leaf.SerialNumber.Int64(); got != want || f.Leaf().SerialNumber.Int64() != want {
			t.Errorf("certificate %d is in use, want %d", got, want)
		}
	}
	refuses := func(want string) {
		t.Helper()
		if err := f.Reload(now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	serves(1)
	write(t, dir, "server", 2, now.Add(2*time.Hour))
	must(t, f.Reload(now))
	serves(2)
	write(t, dir, "server", 3, now.Add(-time.Second))
	refuses("server.pem expired at ")
	write(t, dir, "other", 4, now.Add(time.Hour))
	must(t, os.Rename(file("other.key"), file("server.key")))
	refuses("private key does not match")
	must(t, os.Remove(file("server.pem")))
	refuses("server.pem")
	serves(2)
}

// TestLoadAuthorities refuses authorities of clients that no file holds.
func TestLoadAuthorities(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "server", 1, time.Now().Add(time.Hour))
	pair := []string{filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")}
	for _, authorities := range []string{filepath.Join(dir, "none.pem"), pair[1]} {
		if _, err := certificate.Load(pair[0], pair[1], authorities); err == nil || !strings.Contains(err.Error(), authorities) {
			t.Errorf("authorities from %s: %v", authorities, err)
		}
	}
}
