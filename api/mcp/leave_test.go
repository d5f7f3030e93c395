package mcp_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/api/mcp"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// slowLedger takes its time for each entry.
type slowLedger time.Duration

func (l slowLedger) Submit(ctx context.Context, _ *entry.Entry) (entry.LogRef, error) {
	select {
	case <-time.After(time.Duration(l)):
		return entry.LogRef{}, nil
	case <-ctx.Done():
		return entry.LogRef{}, ctx.Err()
	}
}

func (slowLedger) Plan(context.Context, uint64) ([]entry.Member, error) { return nil, nil }

// written is what the proxy sends to a client.
type written struct{ bytes.Buffer }

func (*written) Close() error { return nil }

// TestClientThatLeaves has a client that is a file: it has asked, and its output is over. Its call
// has as long as the server's answers have. Once the command is to end, the call has five seconds.
func TestClientThatLeaves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ledger, ended time.Duration // 0: the command is not to end
		answer        string
		took          time.Duration
	}{
		"a slow ledger":                 {20 * time.Second, 0, "sent", 20 * time.Second},
		"a ledger slower than --ask":    {40 * time.Second, 0, "was not called: the call cannot be logged: the call was cancelled, or its session has ended", 30 * time.Second},
		"a command that is told to end": {20 * time.Second, 10 * time.Second, "was not called", 15 * time.Second},
		"a call that ends before that":  {13 * time.Second, 10 * time.Second, "sent", 13 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, private, err := ed25519.GenerateKey(nil)
			must(t, err)
			signer, err := keys.NewSigner(private)
			must(t, err)
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				server := sdk.NewServer(&sdk.Implementation{Name: "far", Version: "1"}, nil)
				sdk.AddTool(server, &sdk.Tool{Name: "mail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "sent"}}}, nil, nil
				})
				tools, err := mcp.ParseTools("tools.yaml", []byte("tools:\n  mail: {effect: irrevocable}\n"))
				must(t, err)
				proxy, err := mcp.New(&mcp.Config{Agent: "worker", Origin: "test", Secret: make([]byte, 32), Sign: signer.Sign, NewID: uuid.NewString, Ledger: slowLedger(test.ledger),
					Tools: tools, Dir: dir, Patience: time.Minute, Limit: time.Minute, Ask: 30 * time.Second, Connect: func() sdk.Transport {
						near, far := sdk.NewInMemoryTransports()
						go func() { _ = server.Run(t.Context(), far) }() // ends with the session
						return near
					}})
				must(t, err)
				answers := new(written)
				client, err := (&sdk.IOTransport{Reader: io.NopCloser(strings.NewReader(
					`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"file","version":"1"}}}` + "\n" +
						`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
						`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mail","arguments":{}}}` + "\n")), Writer: answers}).Connect(t.Context())
				must(t, err)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				if test.ended > 0 {
					time.AfterFunc(test.ended, end)
				}
				begun := time.Now()
				must(t, proxy.Serve(ctx, client))
				if took := time.Since(begun); took.Round(time.Second) != test.took {
					t.Errorf("the session took %v, want %v", took, test.took)
				}
				if got := answers.String(); !strings.Contains(got, test.answer) {
					t.Errorf("answers: %s", got)
				}
				must(t, proxy.Close())
			})
		})
	}
}
