//go:build unix

package witness_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/witness"
	"recoveryledger/testdata/budget"
)

// killedDir tells a process of this test that it is a witness, and where its state is.
const killedDir = "ARL_TEST_WITNESS_DIR"

// TestKilledWitness is the witness that TestAWitnessIsKilledChaos kills.
func TestKilledWitness(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // it is no such process
	}
	w, err := witness.Open(&witness.Config{Dir: dir, Name: "w.example/killed", Logs: []witness.Log{{Origin: origin, Keys: []string{newSource(t).vkey}}}})
	must(t, err)
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	fmt.Printf("serving http://%s\n", listener.Addr())
	s := http.Server{Handler: w.Handler(func(err error) { t.Error(err) }), ReadHeaderTimeout: time.Minute}
	must(t, s.Serve(listener))
}

// killed is a witness in a process of its own.
type killed struct {
	process *exec.Cmd
	url     string
}

func startKilled(t *testing.T, dir string) *killed {
	t.Helper()
	k := &killed{process: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWitness$")}
	k.process.Env = append(os.Environ(), killedDir+"="+dir)
	out, err := k.process.StdoutPipe()
	must(t, err)
	must(t, k.process.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	k.url = strings.TrimSpace(strings.TrimPrefix(line, "serving "))
	return k
}

// kill kills it with SIGKILL.
func (k *killed) kill(t *testing.T) {
	t.Helper()
	must(t, k.process.Process.Kill())
	_ = k.process.Wait() // it was killed
}

// ask sends a request, and returns the status; 0 if there is no answer.
func (k *killed) ask(q *witness.Request) (status int, answer string) {
	response, err := http.Post(k.url+"/add-checkpoint", "text/plain", bytes.NewReader(q.Append(nil)))
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(body)
}

// TestAWitnessIsKilledChaos kills a witness while it is asked, again and again. It remembers
// whatever it has answered for, and cosigns no fork of that.
func TestAWitnessIsKilledChaos(t *testing.T) {
	s, dir := newSource(t, "a"), t.TempDir()
	answered := uint64(0) // entries of the newest head that was cosigned
	for cycle := range (budget.Budget{Short: 3, Usual: 6, Chaos: 200}).Now() {
		k := startKilled(t, dir)
		size := answered
		if status, answer := k.ask(&witness.Request{Old: 0, Note: s.Newest().Note}); answered > 0 {
			if n, err := fmt.Sscanf(answer, "%d\n", &size); status != http.StatusConflict || n != 1 || err != nil || size < answered {
				t.Fatalf("cycle %d: after a kill it answers %d %q, and had cosigned %d entries", cycle, status, answer, answered)
			}
			head, err := s.HeadAt(size)
			must(t, err)
			fork := newSource(t, "X")
			for fork.tree.Size() <= head.Size {
				fork.add("X")
			}
			if status, _ := k.ask(fork.request(size)); status != http.StatusUnprocessableEntity {
				t.Fatalf("cycle %d: a fork is answered with %d", cycle, status)
			}
		} else if status != http.StatusOK {
			t.Fatalf("cycle %d: %d %q", cycle, status, answer)
		}
		answered = size
		if answered == 0 {
			answered = s.Newest().Size
		}
		enough, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			for i := 0; ; i++ {
				s.add(fmt.Sprint(cycle, i))
				if status, _ := k.ask(s.request(answered)); status != http.StatusOK {
					return
				}
				if answered = s.Newest().Size; i == 3+cycle {
					close(enough)
				}
			}
		}()
		select {
		case <-enough:
		case <-over:
			t.Fatalf("cycle %d: it does not answer before it is killed", cycle)
		}
		k.kill(t) // most likely while it is asked
		<-over
	}
}

// TestWhatALossOfPowerLeaves opens a witness beside every part of a record that was being
// written when the power was lost: the record before counts, or the whole one after.
func TestWhatALossOfPowerLeaves(t *testing.T) {
	s, dir := newSource(t, "a", "b"), t.TempDir()
	config := &witness.Config{Dir: dir, Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}}
	cosign := func(old uint64) (record []byte) {
		w, err := witness.Open(config)
		must(t, err)
		_, err = w.Cosign(s.request(old))
		must(t, errors.Join(err, w.Close()))
		record, err = os.ReadFile(filepath.Join(dir, "witness.json"))
		must(t, err)
		return record
	}
	before := cosign(0)
	s.add("c")
	after := cosign(2)
	opens := func(want uint64) {
		t.Helper()
		w, err := witness.Open(config)
		must(t, err)
		if !strings.Contains(w.Head(origin), fmt.Sprintf("%s\n%d\n", origin, want)) {
			t.Errorf("of %q, want size %d", w.Head(origin), want)
		}
		must(t, w.Close())
	}
	for length := 0; length <= len(after); length += 1 + len(after)/20 {
		must(t, os.WriteFile(filepath.Join(dir, "witness.json"), before, 0o600))
		must(t, os.WriteFile(filepath.Join(dir, ".witness.json.ABCDEFGHIJKLM"), after[:length], 0o600))
		opens(2)
		must(t, os.WriteFile(filepath.Join(dir, "witness.json"), after, 0o600))
		opens(3)
	}
}
