package mcp

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/ledger/process"
)

// Command returns what starts a server as a program for each session, without a shell. The program
// has a process group of its own, which ends with the session. Held is a file that the program and
// its children have open as descriptor 3: if it is locked, its lock tells whether they still run
// after this process was killed. nil: there is none.
func Command(argv []string, stderr io.Writer, held *os.File) func() sdk.Transport {
	return func() sdk.Transport {
		cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...) // the session ends it
		cmd.Stderr = stderr
		process.Group(cmd)
		if held != nil {
			process.Inherit(cmd, held)
		}
		return &program{sdk.CommandTransport{Command: cmd, TerminateDuration: endTime}}
	}
}

// program is a server that is a program.
type program struct{ sdk.CommandTransport }

// Connect implements [sdk.Transport].
func (p *program) Connect(ctx context.Context) (sdk.Connection, error) {
	connection, err := p.CommandTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &programConnection{connection, p.Command}, nil
}

// programConnection is a session of a program.
type programConnection struct {
	sdk.Connection
	cmd *exec.Cmd
}

// Write implements [sdk.Connection]. A program that does not read holds up its caller no longer
// than ctx lasts. What was not read then may still be.
func (c *programConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	written := make(chan error, 1)
	go func() { written <- c.Connection.Write(ctx, m) }() // ends with the program
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the program with all that it has started.
func (c *programConnection) Close() error {
	err := c.Connection.Close()
	process.End(c.cmd, syscall.SIGKILL)
	return err
}

// Stdio returns what reaches a client by standard input and output.
func Stdio() sdk.Transport { return new(sdk.StdioTransport) }
