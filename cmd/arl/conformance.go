package main

import (
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/conformance"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/kits"
	"recoveryledger/cmd/arl/manual"
)

func (a *app) conformanceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "conformance",
		Short:   "Hold another implementation to the Internet-Draft",
		Example: "  arl conformance verifier -- node verify/js/judge.js",
	}
	cmd.AddCommand(a.conformanceVerifierCommand(), a.conformanceAgentCommand(), a.conformanceLedgerCommand())
	return cmd
}

func (a *app) conformanceLedgerCommand() *cobra.Command {
	var o kits.Options
	var url, root, authority string
	var graphs int
	cmd := &cobra.Command{
		Use:   "ledger --url URL",
		Short: "Submit to a ledger what it must refuse, and what it must register",
		Long: "Submit to a ledger every envelope and payload that the protocol vectors say is refused before its signature is\n" +
			"looked at, and compare the problem. The ledger registers none of them. Each failure names the statements of the\n" +
			"Internet-Draft, what was sent, and what was expected.\n" +
			"With the key of an authority (--authority-key) the kit also plays agents, approvers and the coordinator of a\n" +
			"ledger that is for tests alone: it writes policies, revokes whoever coordinates, and fills the log.",
		Example: "  arl conformance ledger --url http://127.0.0.1:8087 --authority-key authority.key --root root.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
				return exit.Usagef("--url %s: want the URL of a ledger, such as http://127.0.0.1:8087", url)
			}
			ledger := &conformance.Ledger{URL: strings.TrimSuffix(url, "/"), Vectors: os.DirFS(o.Vectors), Limit: o.Limit}
			if graphs <= 0 {
				return exit.Usagef("--graphs %d: want 1 or more", graphs)
			}
			if (authority == "") != (root == "") {
				return exit.Usagef("pass both --authority-key and --root, or neither")
			}
			if authority != "" {
				var err error
				if ledger.Authority, err = a.machine().LoadKey(authority); err != nil {
					return err
				}
				ledger.Graphs = graphs
				if ledger.Root, err = a.machine().ReadRoot(root); err != nil {
					return err
				}
			}
			return kits.Hold(cmd.Context(), &a.Terminal, &o, ledger)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "URL of the ledger (required)")
	manual.NameValue(cmd.Flags(), "url", "URL")
	cmd.Flags().StringVar(&authority, "authority-key", "", "key file of an authority of a ledger for tests: also submit what the ledger must register")
	cmd.Flags().StringVar(&root, "root", "", "file of the pinned root (arl root show), with --authority-key")
	cmd.Flags().IntVar(&graphs, "graphs", 200, "random graphs whose rollback sets are compared, with --authority-key")
	o.Register(cmd.Flags())
	o.RegisterVectors(cmd.Flags())
	_ = cmd.MarkFlagRequired("url") // the flag exists
	return cmd
}

func (a *app) conformanceVerifierCommand() *cobra.Command {
	var o kits.Options
	cmd := &cobra.Command{
		Use:   "verifier -- PROGRAM ARGUMENT…",
		Short: "Ask a verifier every protocol vector",
		Long: "Ask a verifier every protocol vector. The program runs without a shell. It reads a question in each line of\n" +
			"standard input, as JSON, and writes one line with its verdict, as JSON, before it reads the next. Each failure\n" +
			"names the statements of the Internet-Draft, what was sent, and what was expected. A program that hangs,\n" +
			"crashes, or answers garbage fails the case, and is started again, five times at most.",
		Example: "  arl conformance verifier -- node verify/js/judge.js",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return kits.Hold(cmd.Context(), &a.Terminal, &o, &conformance.Verifier{Argv: args, Vectors: os.DirFS(o.Vectors), Limit: o.Limit, Stderr: a.Err})
		},
	}
	o.Register(cmd.Flags())
	o.RegisterVectors(cmd.Flags())
	return cmd
}

func (a *app) conformanceAgentCommand() *cobra.Command {
	var o kits.Options
	var kit conformance.Agent
	cmd := &cobra.Command{
		Use:   "agent -- PROGRAM ARGUMENT…",
		Short: "Test an agent: play its ledger, the other parties, and an attacker",
		Long: "Test an agent. Each case starts the program without a shell, with a ledger of its own in memory. The kit plays the\n" +
			"coordinator, the approvers and the other agents, and the service that the agent has effects on. The kit also plays\n" +
			"an attacker: it forges decisions, bundles and receipts, kills the agent, and loses answers. Each failure names the\n" +
			"statements of the Internet-Draft, what was done, and what was expected. docs/conformance.md says what the program\n" +
			"gets, and what the program has to do.",
		Example: "  arl conformance agent -- python3 my_agent.py",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := path.Match(kit.Case, ""); err != nil {
				return exit.Usagef("--case %s: want a pattern of names, such as 'crash/*'", kit.Case)
			}
			kit.Argv, kit.Limit = args, o.Limit
			return kits.Hold(cmd.Context(), &a.Terminal, &o, &kit)
		},
	}
	cmd.Flags().BoolVar(&kit.NoWork, "no-work", false, "the agent only undoes: leave out the cases in which it works")
	cmd.Flags().StringVar(&kit.Case, "case", "", "only the cases whose names match a pattern, such as 'crash/*', and the first one")
	manual.NameValue(cmd.Flags(), "case", "PATTERN")
	o.Register(cmd.Flags())
	return cmd
}
