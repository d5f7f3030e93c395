package cluster_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// nodeVariable has the configuration of a node. With it this program is a node, and no test.
const nodeVariable = "ARL_TEST_NODE"

func TestMain(m *testing.M) {
	if text := os.Getenv(nodeVariable); text != "" {
		if err := runNode([]byte(text)); err != nil {
			fmt.Println("fatal", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// count is a fold that knows how many entries there are. It refuses the execution that oddVariable
// names, as the rules of another program would.
type count struct{ size uint64 }

// oddVariable names an execution that a node refuses.
const oddVariable = "ARL_TEST_ODD"

func (f *count) Admit(e *entry.Entry, _ uint64, _ int64) error {
	if odd := os.Getenv(oddVariable); odd != "" && e.Body.(*entry.Execution).Exec == odd {
		return entry.Refuse(entry.NotReady, "", "the rules of this node are odd")
	}
	return nil
}

func (f *count) Apply(_ *entry.Entry, i uint64, _ int64) { f.size = i + 1 }
func (f *count) Snapshot(w io.Writer) error              { return binary.Write(w, binary.BigEndian, f.size) }
func (f *count) Restore(r io.Reader) error               { return binary.Read(r, binary.BigEndian, &f.size) }

// logConfig is that of the log of every node.
func logConfig() *ledger.Config {
	signer, verifier, _ := testlog.NoteKey(origin)
	return &ledger.Config{
		Origin: origin, Keys: []ledger.Key{{Signer: signer, Verifier: verifier}}, Reserve: 1,
		NewFold:  func() ledger.Fold { return new(count) },
		Precheck: func(e *entry.Entry) error { e.SignatureChecked = true; return nil },
	}
}

// runNode is a node on the real disk, which takes commands on its standard input until that ends.
func runNode(text []byte) error {
	var c cluster.Config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	fatal := func(err error) { fmt.Println("fatal", err); os.Exit(1) }
	c.Fatal = fatal
	order, err := cluster.Open(&c)
	if err != nil {
		return err
	}
	cfg := logConfig()
	cfg.Fatal = fatal
	var committed uint64 // the goroutine of the order alone uses it
	cfg.Committed = func(head verify.SignedHead) { committed = head.Size }
	cfg.Cluster = &ledger.Cluster{
		Member: agreement.Member{Sequencer: order, Secret: []byte("secret"), Incarnation: c.Incarnation},
		Revert: func() ledger.Fold { return &count{committed} },
	}
	log, err := ledger.Open(c.Dir+".db", cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var ran error
	running.Go(func() { ran = log.Run(ctx) })
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(obey(log, lines.Text()))
	}
	cancel()
	running.Wait()
	return errors.Join(ran, log.Close(), order.Close())
}

// obey answers a command in one line.
func obey(log *ledger.Log, line string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	verb, of, _ := strings.Cut(line, " ")
	switch verb {
	case "submit":
		answer, err := log.Submit(ctx, execution(of))
		if err == nil && answer.Refused != nil {
			err = answer.Refused
		}
		if err != nil {
			return "no " + strconv.Quote(err.Error())
		}
		return fmt.Sprint("registered ", answer.Registered[0].Index)
	case "head":
		size, _ := strconv.ParseUint(of, 10, 64)
		if err := log.Wait(ctx, size); err != nil {
			return fmt.Sprint("no ", err)
		}
		return strconv.Quote(log.Head().Note)
	case "at":
		index, _ := strconv.ParseUint(of, 10, 64)
		found, err := log.Entry(index)
		if err != nil {
			return fmt.Sprint("no ", err)
		}
		return found.Body.(*entry.Execution).Exec
	}
	return "no such command"
}

// execution is the entry of a name, the same at every node.
func execution(name string) *entry.Entry {
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String(), Iss: "agent", Aud: origin, Iat: 1_800_000_000, Wid: "w"},
		Exec:   name, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	})
	if err != nil {
		panic(err)
	}
	e.Seal("SHA256:"+strings.Repeat("A", 43), make([]byte, 64))
	return e
}

// process is a running node.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

// start starts a node in a process of its own.
func (s *site) start(name string) *process {
	s.t.Helper()
	c := s.config(name)
	c.Fatal, c.Logger = nil, nil
	text, err := json.Marshal(struct {
		Dir, Name, CertFile, KeyFile, CAFile, Origin string
		Members                                      map[string]string
		Incarnation                                  agreement.Incarnation
	}{c.Dir, c.Name, c.CertFile, c.KeyFile, c.CAFile, c.Origin, c.Members, c.Incarnation})
	must(s.t, err)
	p := &process{t: s.t, name: name, cmd: exec.Command(os.Args[0]), lines: make(chan string, 100)}
	p.cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	p.cmd.Stderr = s.t.Output()
	p.in, err = p.cmd.StdinPipe()
	must(s.t, err)
	out, err := p.cmd.StdoutPipe()
	must(s.t, err)
	must(s.t, p.cmd.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
		close(p.lines)
	}()
	s.t.Cleanup(p.kill)
	return p
}

// kill ends the process as a loss of power would, but for the disk.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_, _ = p.cmd.Process.Wait()
}

// stop lets the node end in order.
func (p *process) stop() {
	p.t.Helper()
	must(p.t, p.in.Close())
	for line := range p.lines {
		p.t.Fatalf("%s: %s", p.name, line)
	}
	if state, err := p.cmd.Process.Wait(); err != nil || !state.Success() {
		p.t.Fatalf("%s: %v, %v", p.name, state, err)
	}
}

// ask sends a command and returns the answer; empty if there is none in time.
func (p *process) ask(format string, args ...any) string {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return ""
	}
	select {
	case line := <-p.lines:
		if strings.HasPrefix(line, "fatal") {
			p.t.Fatalf("%s: %s", p.name, line)
		}
		return line
	case <-time.After(20 * time.Second):
		p.t.Fatalf("%s: no answer to "+format, append([]any{p.name}, args...)...)
		return ""
	}
}

// record is what was acknowledged: names by index.
type record map[uint64]string

// submit offers an entry to the nodes in turn, as a client does, until one registers it. It returns
// that node.
func (r record) submit(t *testing.T, name string, nodes ...*process) *process {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		for _, p := range nodes {
			answer := p.ask("submit %s", name)
			if index, ok := strings.CutPrefix(answer, "registered "); ok {
				n, err := strconv.ParseUint(index, 10, 64)
				must(t, err)
				if was, taken := r[n]; taken && was != name {
					t.Fatalf("index %d is acknowledged for %s and for %s", n, was, name)
				}
				r[n] = name
				return p
			}
		}
	}
	t.Fatalf("%s is not registered within a minute", name)
	return nil
}

// check wants every acknowledged entry at its index on every node, and equal tree heads.
func (r record) check(t *testing.T, nodes ...*process) {
	t.Helper()
	head := ""
	for _, p := range nodes {
		for index, name := range r {
			p.ask("head %d", index+1)
			if got := p.ask("at %d", index); got != name {
				t.Fatalf("%s has %s at %d, and %s was acknowledged", p.name, got, index, name)
			}
		}
		if got := p.ask("head %d", len(r)); head != "" && got != head {
			t.Fatalf("%s has head %s, another node %s", p.name, got, head)
		} else if head = got; strings.HasPrefix(got, "no") {
			t.Fatalf("%s: %s", p.name, got)
		}
	}
}

// end stops the nodes and checks what they leave.
func (s *site) end(nodes ...*process) {
	s.t.Helper()
	for _, p := range nodes {
		p.stop()
		_, err := ledger.Check(s.t.Context(), s.config(p.name).Dir+".db", logConfig(), nil)
		must(s.t, err)
	}
}

// others are the nodes but one.
func others(nodes []*process, one *process) (rest []*process) {
	for _, p := range nodes {
		if p != one {
			rest = append(rest, p)
		}
	}
	return rest
}

func (s *site) three() []*process {
	return []*process{s.start("a"), s.start("b"), s.start("c")}
}

// copyDirs copies the files of etcd of all nodes.
func (s *site) copyDirs(to, from string) {
	s.t.Helper()
	for name := range s.members {
		dir := s.config(name).Dir
		must(s.t, os.RemoveAll(dir+to))
		must(s.t, os.CopyFS(dir+to, os.DirFS(dir+from)))
	}
}
