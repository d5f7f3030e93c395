package main

import (
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/listen"
	"recoveryledger/cmd/arl/manual"
)

func (a *app) mcpCommand() *cobra.Command {
	var t access.Target
	var o listen.MCP
	cmd := &cobra.Command{
		Use:   "mcp --agent NAME -- COMMAND ARGUMENT…",
		Short: "Record the tool calls of an MCP client, and undo them",
		Long: "Record the tool calls of an MCP client, and undo them. The command stands between a client and an MCP server.\n" +
			"Each call of a tool is an execution of the agent: the log has it before the tool is reached, and how it ended\n" +
			"after. A call that an incident holds, or that cannot be logged, does not reach the tool. A proven rollback calls\n" +
			"the compensations that the tools file (--tools) declares, in order, once. All other messages pass unchanged.\n" +
			"The client speaks over standard input and output, or over streamable HTTP (--listen). docs/mcp.md says more.",
		Example: "  arl mcp --agent worker --key worker.key --tools tools.yaml -- npx @modelcontextprotocol/server-filesystem ./notes",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Argv = args
			if err := o.Check(); err != nil {
				return err
			}
			home, err := a.homeDir()
			if err != nil {
				return err
			}
			return o.Watch(cmd.Context(), a.machine(), &t, func(c *access.Connection) error {
				opened, err := o.Open(cmd.Context(), a.machine(), c, home)
				if err != nil {
					return err
				}
				defer opened.Store.Close() //nolint:errcheck // the process ends with it
				return o.Run(cmd.Context(), &a.Terminal, &t, opened)
			})
		},
	}
	flags := cmd.Flags()
	t.Register(flags)
	flags.StringVar(&o.Agent, "agent", "", "principal of the agent (required)")
	flags.StringVar(&o.Key, "key", "", "key file of the agent (default: the key of the profile for that principal)")
	flags.StringVar(&o.Tools, "tools", "", "tools file: effects, probes and compensations of the server's tools")
	manual.NameValue(flags, "tools", "FILE")
	flags.StringVar(&o.Server, "server", "", "URL of an MCP server over streamable HTTP, instead of a command")
	manual.NameValue(flags, "server", "URL")
	flags.StringVar(&o.Listen, "listen", "", "address on this machine for clients over streamable HTTP, instead of standard input and output")
	manual.NameValue(flags, "listen", "ADDRESS")
	flags.DurationVar(&o.Limit, "limit", 10*time.Minute, "time that a tool has for its answer, also to a compensation")
	flags.DurationVar(&o.Ask, "ask", 30*time.Second, "time that the server has to list its tools, and to answer a probe or a call under before in the tools file; a client that leaves gets the answers to its open calls within the same time")
	flags.DurationVar(&o.Patience, "patience", 20*time.Second, "time that the ledger has to answer at the start, and to register a call before the call is refused")
	o.Register(flags)
	_ = cmd.MarkFlagRequired("agent") // the flag exists
	return cmd
}
