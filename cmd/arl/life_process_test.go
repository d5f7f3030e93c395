//go:build unix

package main_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/testdata/program"
)

// served is a process of arl serve whose log is read while it runs.
type served struct {
	t       *testing.T
	process *exec.Cmd
	log     *bufio.Scanner
}

// serveLogged starts arl serve in a directory.
func serveLogged(t *testing.T, dir string, flags ...string) *served {
	t.Helper()
	binary := program.Arl(t)
	s := &served{t: t, process: exec.Command(binary, append([]string{"serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}, flags...)...)}
	s.process.Env = append(os.Environ(), "ARL_HOME="+filepath.Join(dir, "home"))
	stderr, err := s.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.log = bufio.NewScanner(stderr)
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.process.Process.Kill(); _ = s.process.Wait() }) // it may have ended
	return s
}

// until reads the log up to the record with this message and returns its
// attributes.
func (s *served) until(message string) map[string]string {
	s.t.Helper()
	var read []string
	for s.log.Scan() {
		read = append(read, s.log.Text())
		attrs := attributes(s.log.Text())
		if attrs["msg"] == message {
			return attrs
		}
	}
	s.t.Fatalf("the log ends before %q: %s", message, strings.Join(read, "\n"))
	return nil
}

// attributes are those of a line of the text form of log/slog.
func attributes(line string) map[string]string {
	attrs := map[string]string{}
	for line != "" {
		name, rest, ok := strings.Cut(line, "=")
		if !ok {
			return attrs
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			end := 1
			for end < len(rest)-1 && (rest[end] != '"' || rest[end-1] == '\\') {
				end++
			}
			value, line = rest[1:end], strings.TrimPrefix(rest[end+1:], " ")
		} else {
			value, line, _ = strings.Cut(rest, " ")
		}
		attrs[name] = value
	}
	return attrs
}

func (s *served) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// ends wants the process to end in order.
func (s *served) ends() {
	s.t.Helper()
	for s.log.Scan() { // to its end, as [exec.Cmd.StderrPipe] asks
	}
	if err := s.process.Wait(); err != nil {
		s.t.Error(err)
	}
}

// The log says which build opened which ledger and where it stood, when it took
// entries, why it ended and where it stood then; the next start begins there.
func TestTheLogTellsTheLifeOfTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serveLogged(t, dir, "--origin", "ledger.example/life")
	opening, begin := s.until("opening"), s.until("start")
	ready := s.until("ready")
	if opening["version"] == "" || opening["address"] == "" || opening["data"] != filepath.Join(dir, "data") {
		t.Errorf("opening %v", opening)
	}
	if begin["origin"] != "ledger.example/life" || begin["size"] != "0" || begin["root"] == "" || begin["policy"] != "0" || begin["address"] != opening["address"] ||
		begin["anchor"] != filepath.Join(dir, "data.anchor") || strings.Count(begin["keys"], "ledger.example/life+") != 2 || !strings.HasPrefix(begin["coordinator"], "SHA256:") {
		t.Errorf("start %v", begin)
	}
	if ready["url"] != "http://"+begin["address"] || ready["size"] != "3" {
		t.Errorf("ready %v", ready)
	}
	s.signal(syscall.SIGTERM)
	if stopping := s.until("stopping"); !strings.Contains(stopping["reason"], "terminated") {
		t.Errorf("stopping %v", stopping)
	}
	end := s.until("stop")
	if !strings.Contains(end["reason"], "terminated") || end["size"] != "3" || end["root"] == begin["root"] || end["level"] != "INFO" {
		t.Errorf("stop %v", end)
	}
	s.ends()
	s = serveLogged(t, dir)
	if again := s.until("start"); again["size"] != "3" || again["root"] != end["root"] || again["keys"] != begin["keys"] {
		t.Errorf("after %v: %v", end, again)
	}
	s.until("ready")
	s.signal(syscall.SIGHUP) // without certificates the terminal has hung up
	if end := s.until("stop"); !strings.Contains(end["reason"], "hangup") {
		t.Errorf("after a hangup: %v", end)
	}
	s.ends()
}

// selfSigned writes a certificate with this serial number and its key.
func selfSigned(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// SIGHUP has the certificates read again. Connections that are open go on; files
// that cannot be used are told, and change nothing.
func TestHangupReadsCertificatesAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, cert, key, 17)
	s := serveLogged(t, dir, "--tls-cert", cert, "--tls-key", key)
	address := s.until("ready")["url"][len("https://"):]
	dial := func(serial int64) *tls.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the serial is looked at
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("certificate %d, want %d", got, serial)
		}
		return conn
	}
	ask := func(conn *tls.Conn) {
		t.Helper()
		_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		line := ""
		if err == nil {
			line, err = bufio.NewReader(conn).ReadString('\n')
		}
		if err != nil || !strings.Contains(line, "200 OK") {
			t.Errorf("an open connection: %q, %v", line, err)
		}
	}
	before := dial(17)
	ask(before)
	selfSigned(t, cert, key, 18)
	s.signal(syscall.SIGHUP)
	if told := s.until("reload"); told["serial"] != fmt.Sprintf("%x", 18) || told["level"] != "INFO" || told["not_after"] == "" {
		t.Errorf("reload %v", told)
	}
	ask(before)
	dial(18)
	if err := os.WriteFile(key, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	if told := s.until("reload: the previous certificates stay in use"); told["level"] != "ERROR" || told["error"] == "" {
		t.Errorf("reload %v", told)
	}
	dial(18)
	ask(before)
	s.signal(syscall.SIGTERM)
	s.until("stop")
	s.ends()
}

// Where the environment says of no directory for keys and profiles, what needs one
// says how to name it, and what needs none works.
func TestWithoutAHome(t *testing.T) {
	t.Parallel()
	binary := program.Arl(t)
	run := func(args ...string) (int, string) {
		cmd := exec.Command(binary, args...)
		for _, variable := range os.Environ() {
			if name, _, _ := strings.Cut(variable, "="); name != "HOME" && name != "XDG_CONFIG_HOME" && name != "ARL_HOME" {
				cmd.Env = append(cmd.Env, variable)
			}
		}
		out, err := cmd.CombinedOutput()
		return exitOf(err), string(out)
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}, {"agent", "list"}, {"doctor"},
	} {
		if code, said := run(args...); code != 78 || !strings.Contains(said, "ARL_HOME") {
			t.Errorf("%v: exit code %d: %s", args, code, said)
		}
	}
	for _, args := range [][]string{{"version"}, {"explain", "malformed"}, {"policy", "show", "--default"}, {"key", "generate", "--out", filepath.Join(dir, "key")}} {
		if code, said := run(args...); code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, said)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a start that failed left a data directory")
	}
}
