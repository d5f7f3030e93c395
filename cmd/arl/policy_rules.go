package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"recoveryledger/api/words/runs"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/policyfile"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
)

func (a *app) policyLintCommand() *cobra.Command {
	var o strategyOptions
	cmd := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Look for mistakes in policy files",
		Long: "Look for mistakes in policy files. The command prints each mistake with file, line and column, and how to fix\n" +
			"it. A file may have the member recovery alone. A rule that names a strategy which --strategies does not have is\n" +
			"a mistake too, as it is for arl recover. The exit code is 78 if there is a mistake.",
		Example: "  arl policy lint policy.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			count := 0
			for _, file := range files {
				problems, err := a.lintPolicy(file, &o)
				if err != nil {
					return err
				}
				count += len(problems)
				for i := range problems {
					if err := a.printProblem(&problems[i]); err != nil {
						return err
					}
				}
			}
			if count > 0 {
				return exit.With(exit.Config, fmt.Errorf("mistakes: %d", count))
			}
			return nil
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func (a *app) printProblem(p *recovery.Problem) error {
	if a.JSON() {
		return a.PrintJSON(p)
	}
	return a.PrintProse(p.Error() + "\n")
}

// lintPolicy returns the mistakes in a policy file.
func (a *app) lintPolicy(file string, o *strategyOptions) ([]recovery.Problem, error) {
	data, err := a.ReadInput(file, policyMax)
	if err != nil {
		return nil, err
	}
	return policyfile.Lint(file, data, func() ([]recovery.Problem, error) { return a.lintStrategies(file, data, o) })
}

func (a *app) policyHashCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hash [FILE]",
		Short: "Print the digest of a policy's rules of recovery",
		Long: "Print the digest of the rules of recovery: SHA-256 over their canonical JSON (RFC 8785). Runs and reports name\n" +
			"the rules by this digest. Without a file, print the digest of the built-in rules.",
		Example: "  arl policy hash policy.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			p, err := a.recoveryPolicy(strings.Join(files, ""))
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(struct {
					Recovery string `json:"recovery"`
				}{string(p.Hash())})
			}
			return a.PrintText(string(p.Hash()) + "\n")
		},
	}
}

func (a *app) policyDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff [OLDER] NEWER",
		Short: "Show what changes from one policy file to another",
		Long: "Show what changes from one policy file to another. Comments and spelling do not count. With one file, show what\n" +
			"the file changes in the default. The command prints nothing if both say the same.",
		Example: "  arl policy diff policy.yaml",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, files []string) error {
			newer := files[len(files)-1]
			is, whole, err := a.plainPolicy(newer)
			if err != nil {
				return err
			}
			older := "default"
			var was []byte
			if len(files) == 2 {
				older = files[0]
				was, _, err = a.plainPolicy(older)
			} else {
				was, err = policyfile.PlainDefault(whole)
			}
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.printPolicyChanges(was, is)
			}
			return a.PrintText(string(diff.Diff(older, was, newer, is)))
		},
	}
}

// plainPolicy reads a policy file as plainText writes it.
func (a *app) plainPolicy(file string) (text []byte, whole bool, err error) {
	data, err := a.ReadInput(file, policyMax)
	if err != nil {
		return nil, false, err
	}
	text, whole, err = policyfile.Plain(file, data)
	return text, whole, exit.With(exit.Config, err)
}

func (a *app) printPolicyChanges(was, is []byte) error {
	changes, err := policyfile.Changes(was, is)
	for _, change := range changes {
		err = errors.Join(err, a.PrintJSON(change))
	}
	return err
}

func (a *app) policyExplainCommand() *cobra.Command {
	var o engineOptions
	var file string
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show the reasoning behind every decision on a case",
		Long: "Show the reasoning behind every decision on a case, step by step: effect gate, guards, rule, position on the\n" +
			"ladder, limits, result. The case is one line of a scenario. Its recorded results answer the decisions.",
		Example: "  arl policy explain --case case.json --policy policy.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.engine(&o)
			if err != nil {
				return err
			}
			return a.explainCase(cmd.Context(), e, file)
		},
	}
	cmd.Flags().StringVar(&file, "case", "", "file with one case; - for standard input (required)")
	o.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("case") // the flag exists
	return cmd
}

func (a *app) explainCase(ctx context.Context, e *engine.Setup, file string) error {
	c, err := a.readCase(e, file)
	if err != nil {
		return err
	}
	done, decisions, err := e.Explain(ctx, &c)
	if err != nil {
		return err
	}
	for i := range decisions {
		if err := a.printDecision(&decisions[i]); err != nil {
			return err
		}
	}
	if a.JSON() {
		return nil
	}
	if hint := done.Trace.Hint(); hint != "" {
		fmt.Fprintf(a.Err, "%s\n", hint)
	}
	return a.PrintText(runs.End(&done.Trace) + "\n")
}

func (a *app) printDecision(d *engine.ExplainedDecision) error {
	if a.JSON() {
		return a.PrintJSON(d)
	}
	var b bytes.Buffer
	b.WriteString(runs.DecisionTitle(d) + "\n")
	wide := 0
	for _, s := range d.Reasoning {
		wide = max(wide, len(s.Name))
	}
	for _, s := range d.Reasoning {
		fmt.Fprintf(&b, "  %-7s  %-*s  %s\n", s.Stage, wide, s.Name, s.Finding)
	}
	if d.Outcome != "" {
		fmt.Fprintf(&b, "  %-7s  %-*s  %s\n", "outcome", wide, "", d.Outcome)
	}
	b.WriteByte('\n')
	return a.PrintText(b.String())
}
