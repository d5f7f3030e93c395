package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/cluster/site"
)

const (
	firstPort = 8087 // of the first node, as that of a single ledger
	portStep  = 10   // between the ports of two nodes
	mostNodes = 9
	endTime   = 20 * time.Second // for a node to end in order
)

// laptop is a cluster on loopback, a process each node.
type laptop struct {
	t     *terminal.Terminal
	dir   string
	nodes int
	port  int
}

func startCommand(t *terminal.Terminal) *cobra.Command {
	l := &laptop{t: t}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start three nodes on this machine, to try a cluster",
		Long: "Start a cluster on loopback, a process each node, and print what to try. The nodes end with the command, and go\n" +
			"on where they were when it starts again. A cluster on one machine loses with it what one node would lose.",
		Example: "  arl cluster start --dir ./cluster",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&l.nodes, "nodes", 3, "number of nodes")
	cmd.Flags().StringVar(&l.dir, "dir", "cluster", "directory for the data of the nodes, and for keys and profiles")
	cmd.Flags().IntVar(&l.port, "port", firstPort, "port of the first node; 0: free ones, for a new cluster")
	return cmd
}

// run runs the nodes until ctx ends. Nodes that were there start at once, because a majority of
// them must run before one serves. New ones join one after another.
func (l *laptop) run(ctx context.Context) error {
	if l.nodes < 1 || l.nodes > mostNodes {
		return exit.Usagef("--nodes %d: want 1 to %d", l.nodes, mostNodes)
	}
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	urls := make([]string, l.nodes)
	var awaited []func() error
	await := func() error {
		for _, served := range awaited {
			if err := served(); err != nil {
				return err
			}
		}
		awaited = nil
		return nil
	}
	for i := range l.nodes {
		args, joins, err := l.arguments(ctx, i, await)
		if err != nil {
			return err
		}
		p, err := l.start(ctx, i, args)
		if err != nil {
			return err
		}
		running.Go(func() {
			if err := p.wait(); ctx.Err() == nil {
				l.t.Tell("node %s has ended: %v; the others go on: see %s.log", l.name(i), err, l.data(i))
			}
		})
		awaited = append(awaited, func() error {
			select {
			case urls[i] = <-p.served:
				return nil
			case <-p.ended:
				return exit.With(exit.Unavailable, fmt.Errorf("node %s does not start: see %s.log", l.name(i), l.data(i)))
			}
		})
		if joins {
			if err := await(); err != nil {
				return err
			}
		}
	}
	if err := await(); err != nil {
		return err
	}
	if err := l.knowsAll(urls); err != nil {
		return err
	}
	if err := l.t.PrintText(l.says(urls)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (l *laptop) name(i int) string          { return "n" + strconv.Itoa(i+1) }
func (l *laptop) data(i int) string          { return filepath.Join(l.dir, l.name(i)) }
func (l *laptop) address(i, port int) string { return net.JoinHostPort("127.0.0.1", l.portOf(i, port)) }

func (l *laptop) portOf(i, which int) string {
	if l.port == 0 {
		return "0"
	}
	return strconv.Itoa(l.port + i*portStep + which)
}

// arguments returns how a node is started, and whether it is new. await returns when the nodes
// before it serve.
func (l *laptop) arguments(ctx context.Context, i int, await func() error) (args []string, joins bool, err error) {
	args = []string{"serve", "--output", "json", "--cluster", "--data", l.data(i), "--listen", l.address(i, 0)}
	found, err := site.Load(l.data(i))
	if err == nil && (found.Begun() || i == 0) {
		return args, false, nil
	}
	if err != nil && !errors.Is(err, site.ErrNone) {
		return nil, false, exit.With(exit.Config, err)
	}
	args = append(args, "--node", l.name(i), "--peer-listen", l.address(i, 1), "--etcd-listen", l.address(i, 2))
	if i == 0 {
		return args, true, nil
	}
	if err := await(); err != nil {
		return nil, false, err
	}
	token, err := l.token(ctx)
	return append(args, "--join", token), true, err
}

// process is a node that was started.
type process struct {
	cmd    *exec.Cmd
	said   *os.File
	served chan string   // gets its URL
	ended  chan struct{} // closed when it says nothing more
}

// start starts a node.
func (l *laptop) start(ctx context.Context, i int, args []string) (*process, error) {
	program, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(l.dir, 0o700)
	}
	if err != nil {
		return nil, exit.Output(l.dir, err)
	}
	p := &process{cmd: exec.CommandContext(ctx, program, args...), served: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = endTime
	p.cmd.Env = append(os.Environ(), "ARL_HOME="+l.home())
	if p.said, err = os.OpenFile(l.data(i)+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, exit.Output(l.data(i)+".log", err)
	}
	p.cmd.Stderr = p.said
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, p.said.Close())
	}
	go func() {
		defer close(p.ended)
		var started struct{ URL string }
		if json.NewDecoder(out).Decode(&started) == nil {
			p.served <- started.URL
		}
		_, _ = io.Copy(io.Discard, out) // until it ends
	}()
	return p, nil
}

// wait returns how the node has ended.
func (p *process) wait() error {
	<-p.ended
	return errors.Join(p.cmd.Wait(), p.said.Close())
}

func (l *laptop) home() string {
	home, err := filepath.Abs(filepath.Join(l.dir, "home"))
	if err != nil {
		return filepath.Join(l.dir, "home")
	}
	return home
}

// token asks the first node for a token.
func (l *laptop) token(ctx context.Context) (string, error) {
	a := asking{t: l.t, data: l.data(0)}
	c, address, err := a.node()
	if err != nil {
		return "", err
	}
	for began := time.Now(); ; { // a busy machine is slow to agree
		token, err := c.Token(ctx, address)
		if err == nil {
			return token, nil
		}
		if err = refused(err); exit.Code(err) != exit.Unavailable || time.Since(began) > endTime {
			return "", err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return "", err
		}
	}
}

// knowsAll puts the URLs of all nodes into the profile, where each node has put its own.
func (l *laptop) knowsAll(urls []string) error {
	s, err := site.Load(l.data(0))
	if err != nil {
		return err
	}
	store := &trust.Store{Home: func() (string, error) { return l.home(), nil }}
	p, err := store.Of(s.Origin)
	if err != nil {
		return err
	}
	p.URL = strings.Join(urls, ",")
	return store.Save(p)
}

// says returns what to try.
func (l *laptop) says(urls []string) string {
	var b strings.Builder
	for i, url := range urls {
		fmt.Fprintf(&b, "%s  %s  data %s, messages %s.log\n", l.name(i), url, l.data(i), l.data(i))
	}
	last := len(urls) - 1
	fmt.Fprintf(&b, `
From another terminal:

  export ARL_HOME=%[2]s
  %[1]s cluster status --data %[3]s  # who leads
  %[1]s key generate --out agent.key
  %[1]s agent enrol --principal my-agent --key agent.key --domain my-team  # at whichever node answers
  %[1]s cluster lead %[5]s --data %[3]s  # another node leads
  curl -i %[4]s/readyz

Kill a node: the others go on. Ctrl-C ends all of them; the same command starts them again.
`, os.Args[0], l.home(), l.data(0), urls[last], l.name(last))
	return b.String()
}
