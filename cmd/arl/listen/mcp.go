package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/client/agent"
	"recoveryledger/api/mcp"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
)

// MCP are the flags of arl mcp.
type MCP struct {
	Options
	Argv   []string // the server as a program
	Server string   // or its URL
	Tools  string   // file
	Listen string   // address for clients over HTTP; empty: one client, by standard input and output
	Limit  time.Duration
	Ask    time.Duration
}

// Check refuses flags that no ledger need be asked about.
func (o *MCP) Check() error {
	host, _, err := net.SplitHostPort(o.Listen)
	switch {
	case (len(o.Argv) == 0) == (o.Server == ""):
		return exit.Usagef("name the MCP server: its program behind --, or its URL with --server")
	case o.Limit <= 0 || o.Ask <= 0 || o.Patience <= 0:
		return exit.Usagef("--limit, --ask and --patience: want durations above 0, such as 30s")
	case o.Listen != "" && (err != nil || !loopback(host)):
		return exit.Usagef("--listen %s: want a port of this machine alone, such as 127.0.0.1:8090: whoever reaches the port acts as the agent", o.Listen)
	}
	return o.Options.Check()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// flushTime is how long the end of the command waits for the ledger to take the ends of calls.
const flushTime = 10 * time.Second

// Run stands between clients and the server until the client leaves, or ctx ends.
func (o *MCP) Run(ctx context.Context, a *terminal.Terminal, t *access.Target, opened *Agent) (err error) {
	proxy, held, secret, err := o.open(a, opened)
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close() //nolint:errcheck // the process ends with it
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 2)
	hooks := proxy.Hooks()
	go func() { failed <- opened.Obey(running, t, secret, &hooks, Told{o.teller(a), a.Tell}) }()
	go func() { failed <- exit.With(exit.IO, proxy.Run(running)) }()
	serving, leave := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- o.serve(serving, a, proxy) }()
	left := 2
	select {
	case err = <-served:
		served <- nil
	case err = <-failed: // neither ends by itself but for an error
		left--
	}
	leave()
	err = errors.Join(err, <-served)
	stop()
	for range left {
		err = errors.Join(err, <-failed)
	}
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if flushErr := proxy.Flush(flushing); flushErr != nil {
		a.Tell("the log lacks the ends of some calls; the next start sends them: %v", flushErr)
	}
	return errors.Join(err, proxy.Close())
}

// open makes the state of an agent that never ran, and opens the proxy.
func (o *MCP) open(a *terminal.Terminal, opened *Agent) (proxy *mcp.Proxy, held *os.File, secret []byte, err error) {
	never, err := opened.isNew()
	if err == nil && never {
		if err = opened.Init(); err == nil {
			a.Tell("made the state of %s in %s, and its secret in %s: keep the secret, it outlasts the state", opened.Signer.Principal, o.State, o.Secret)
		}
	}
	if err == nil {
		secret, err = ReadSecret(o.Secret)
	}
	var tools *mcp.Tools
	if err == nil && o.Tools != "" {
		var text []byte
		if text, err = opened.m.Read(o.Tools, mcp.MaxToolsFile+1); err == nil {
			if tools, err = mcp.ParseTools(o.Tools, text); err != nil {
				err = exit.With(exit.Config, err)
			}
		}
	}
	connect := mcp.Remote(o.Server)
	if err == nil && o.Server == "" {
		held, err = HoldProgram(o.State)
		connect = mcp.Command(o.Argv, a.Err, held)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	proxy, err = mcp.New(&mcp.Config{Agent: opened.Signer.Principal, Origin: opened.c.Root.Origin, Secret: secret, Sign: opened.Signer.Sign, NewID: uuid.NewString,
		Ledger: opened.Server, Tools: tools, Dir: o.State, Connect: connect, Patience: o.Patience, Limit: o.Limit, Ask: o.Ask, Tell: a.Tell})
	return proxy, held, secret, exit.With(exit.IO, err)
}

// serve takes clients.
func (o *MCP) serve(ctx context.Context, a *terminal.Terminal, proxy *mcp.Proxy) error {
	if o.Listen == "" {
		client, err := mcp.Stdio().Connect(ctx)
		if err != nil {
			return err
		}
		return proxy.Serve(ctx, client)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return exit.With(exit.Unavailable, fmt.Errorf("--listen %s: %w", o.Listen, err))
	}
	handler := mcp.NewHandler(proxy)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	a.Tell("MCP clients: http://%s/", listener.Addr())
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		handler.Close()
		err = server.Close()
		if end := <-done; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
	}
	return err
}

// teller tells what happens on standard error: standard output is the client's.
func (o *MCP) teller(a *terminal.Terminal) func(agent.Event) {
	return func(e agent.Event) {
		text := fmt.Sprintf("%s %s %s", e.Kind, e.Exec, e.Text)
		if e.Incident != 0 {
			text = fmt.Sprintf("incident %d: %s", e.Incident, text)
		}
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
		a.Tell("%s", text)
	}
}
