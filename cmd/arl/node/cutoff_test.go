package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/engine"
)

// shown is a server of metrics at a listener that can be cut.
type shown struct {
	m      *metrics.Metrics
	cutoff *node.Cutoff
	mux    *http.ServeMux
	server *http.Server
	served chan error // why the server ended
	base   string     // URL
}

// show serves metrics.
func show(t *testing.T) *shown {
	t.Helper()
	inner := bound(t)
	s := &shown{m: metrics.New(), cutoff: node.NewCutoff(inner), mux: http.NewServeMux(), served: make(chan error, 1), base: "http://" + inner.Addr().String()}
	s.server = &http.Server{Handler: s.mux, ReadHeaderTimeout: time.Second}
	s.mux.Handle("/metrics", s.m.Handler())
	go func() { s.served <- s.server.Serve(s.cutoff) }()
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

// violations is the counter of an invariant, in the text of the metrics.
func violations(of metrics.Invariant, n int) string {
	return fmt.Sprintf("arl_invariant_violations_total{invariant=%q} %d\n", of, n)
}

// damages are errors with which a damaged log ends a ledger, by the invariant that each breaks.
var damages = map[metrics.Invariant]error{
	metrics.Lost:        fmt.Errorf("ledger: read: %w: entry 7", ledger.ErrMissing),
	metrics.CorruptRead: fmt.Errorf("%w: entry 7: it is no entry", ledger.ErrCorrupt),
}

// TestHaltOnDamage: a ledger that ends at once, because it met damage of its log, shows the counter
// of the invariant once.
func TestHaltOnDamage(t *testing.T) {
	for invariant, err := range damages {
		t.Run(string(invariant), func(t *testing.T) {
			s := show(t)
			if first := read(t, s.base+"/metrics"); !strings.Contains(first, violations(invariant, 0)) {
				t.Fatal(first)
			}
			said := make(chan struct{})
			go func() {
				defer close(said)
				s.cutoff.Halt(context.WithoutCancel(t.Context()), s.m, nil, err)
			}()
			if other := awaitHalt(t, s.base); !strings.HasPrefix(other, "503 ") {
				t.Errorf("another request: %.200s", other)
			}
			if last := read(t, s.base+"/metrics"); !strings.Contains(last, violations(invariant, 1)) {
				t.Errorf("the last metrics: %s", last)
			}
			<-said
		})
	}
}

// awaitHalt asks until the server of the metrics has halted, and returns what is said then.
func awaitHalt(t *testing.T, base string) string {
	t.Helper()
	for {
		if said := read(t, base+"/v1/log"); !strings.HasPrefix(said, "404 ") { // the server has no such path
			return said
		}
	}
}

// TestHaltWithoutMetrics: whoever ends the ledger holds a lock that a metric waits for. The ledger
// ends all the same, without a last word.
func TestHaltWithoutMetrics(t *testing.T) {
	inner := bound(t)
	synctest.Test(t, func(t *testing.T) {
		m, lock := metrics.New(), make(chan struct{})
		defer close(lock)
		m.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
		m.Notifications(func() map[string]time.Duration { <-lock; return nil })
		began := time.Now()
		node.NewCutoff(inner).Halt(t.Context(), m, nil, damages[metrics.Lost])
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the ledger ends after %v", took)
		}
	})
}

// TestFatalOnDamage has a process end by [node.Life.Fatal], as the goroutine that orders entries
// does where it meets damage. The service manager hears that the process stops before the watchdog
// can end it, the counter is shown once, and the exit code is that of a damaged log.
func TestFatalOnDamage(t *testing.T) {
	const child = "ARL_TEST_FATAL"
	if invariant := os.Getenv(child); invariant != "" {
		s := show(t)
		fmt.Println(s.base)
		_, _ = io.ReadAll(os.Stdin) // it ends when the metrics were read
		life := &node.Life{Logger: slog.New(slog.DiscardHandler), Data: "data", Halt: func(err error) { s.cutoff.Halt(t.Context(), s.m, nil, err) }}
		life.Fatal(damages[metrics.Invariant(invariant)])
	}
	for invariant := range damages {
		t.Run(string(invariant), func(t *testing.T) {
			address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
			manager, err := net.ListenUnixgram("unixgram", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = manager.Close() })
			process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFatalOnDamage$")
			process.Env = append(os.Environ(), child+"="+string(invariant), "NOTIFY_SOCKET="+address.Name)
			out, err := process.StdoutPipe()
			in, failed := process.StdinPipe()
			if err := errors.Join(err, failed, process.Start()); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			base := strings.TrimSpace(line)
			if first := read(t, base+"/metrics"); !strings.Contains(first, violations(invariant, 0)) {
				t.Fatal(first)
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			said := make([]byte, 100)
			if err := manager.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := manager.Read(said)
			if err != nil || string(said[:n]) != "STOPPING=1" {
				t.Fatalf("the service manager hears %q, %v", said[:n], err)
			}
			awaitHalt(t, base)
			if last := read(t, base+"/metrics"); !strings.Contains(last, violations(invariant, 1)) {
				t.Errorf("the last metrics: %s", last)
			}
			_ = process.Wait() // its exit code follows
			if code := process.ProcessState.ExitCode(); code != exit.Inconsistent {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestFatalOfTheEngineEndsAtOnce: the storage engine meets damage beside the order, so that nothing
// may be waited for.
func TestFatalOfTheEngineEndsAtOnce(t *testing.T) {
	const child = "ARL_TEST_ENGINE_FATAL"
	if os.Getenv(child) != "" {
		life := &node.Life{Logger: slog.New(slog.DiscardHandler), Data: "data", Halt: func(error) { fmt.Println("halts") }}
		(&engine.Logger{Ends: life.Fatal}).Fatalf("compaction: %v", pebble.ErrCorruption)
	}
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFatalOfTheEngineEndsAtOnce$")
	process.Env = append(os.Environ(), child+"=true")
	said, err := process.Output()
	if code := process.ProcessState.ExitCode(); code != exit.Inconsistent || len(said) > 0 {
		t.Errorf("%q, exit code %d: %v", said, code, err)
	}
}

// TestCutoff: a node that diverged closes every connection, also one on which a request waits. Once
// one has ended, none has an answer. The node shows its counter once. Its server does not take that
// for a failure, and ends in order.
func TestCutoff(t *testing.T) {
	s := show(t)
	base, cutoff := s.base, s.cutoff
	waits, over := make(chan struct{}), make(chan struct{})
	s.mux.HandleFunc("/waits", func(http.ResponseWriter, *http.Request) { close(waits); <-over })
	if first := read(t, base+"/metrics"); !strings.Contains(first, violations(metrics.Diverged, 0)) {
		t.Fatal(first)
	}
	var idle []net.Conn
	for range 50 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", cutoff.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := ask(conn, base+"/metrics"); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	answered, client := make(chan error, 1), &http.Client{Transport: &http.Transport{}} // it asks once on a connection of its own
	go func() {
		response, err := client.Get(base + "/waits")
		if err == nil {
			_, err = io.ReadAll(response.Body)
			err = errors.Join(err, response.Body.Close())
		}
		answered <- err
	}()
	<-waits
	said := make(chan struct{})
	go func() {
		defer close(said)
		cutoff.Halt(context.WithoutCancel(t.Context()), s.m, nil, fmt.Errorf("%w: another root", agreement.ErrDiverged))
	}()
	if err := <-answered; err == nil {
		t.Error("a request is answered behind the end")
	}
	for i, conn := range idle {
		if err := ask(conn, base+"/v1/log"); err == nil {
			t.Errorf("connection %d has an answer behind the end of another", i)
		}
	}
	if other := read(t, base+"/v1/log"); !strings.HasPrefix(other, "503 ") {
		t.Errorf("another request: %.200s", other)
	}
	if last := read(t, base+"/metrics"); !strings.Contains(last, violations(metrics.Diverged, 1)) {
		t.Errorf("the last metrics: %s", last)
	}
	<-said
	close(over)
	select {
	case err := <-s.served:
		t.Errorf("the server reports %v", err)
	default:
	}
	if err := s.server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("the server ends with %v", err)
	}
	if err := cutoff.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// ask asks on a connection, and reads the answer to its end.
func ask(conn net.Conn, url string) error {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if err := request.Write(conn); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}
