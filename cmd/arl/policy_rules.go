package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
)

func (a *app) policyLintCommand() *cobra.Command {
	var o strategyOptions
	cmd := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Look for mistakes in policy files",
		Long: "Look for mistakes in policy files: each is printed with file, line, column, and what to do. A file may have the\n" +
			"member recovery alone. A rule that names a strategy which --strategies does not have is a mistake, too, as it is\n" +
			"for arl recover. The exit code is 78 if there is a mistake.",
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
				return withExit(exitConfig, fmt.Errorf("mistakes: %d", count))
			}
			return nil
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func (a *app) printProblem(p *recovery.Problem) error {
	if a.settings.output == outputJSON {
		return a.printJSON(p)
	}
	return a.printProse(p.Error() + "\n")
}

// lintPolicy returns all mistakes in the rules of a file, and the first among
// the members that are the ledger's.
func (a *app) lintPolicy(file string, o *strategyOptions) ([]recovery.Problem, error) {
	data, err := a.readInput(file, policyMax)
	if err != nil {
		return nil, err
	}
	rules, ledger := policyParts(data)
	var problems []recovery.Problem
	if rules || !ledger {
		problems = recovery.Lint(file, data)
		if len(problems) == 0 {
			if problems, err = a.lintStrategies(file, data, o); err != nil {
				return nil, err
			}
		}
	}
	if !ledger {
		return problems, nil
	}
	policy, err := parseMembers(file, data)
	if err == nil {
		err = obeyable(file, data, policy)
	}
	wrong, ok := errors.AsType[*recovery.Error](err)
	if !ok {
		return problems, err
	}
	for _, p := range wrong.Problems {
		found := slices.ContainsFunc(problems, func(other recovery.Problem) bool { return other.Line == p.Line && other.Column == p.Column })
		if !found {
			problems = append(problems, p)
		}
	}
	slices.SortStableFunc(problems, func(a, b recovery.Problem) int { return a.Line - b.Line })
	return problems, nil
}

func (a *app) policyHashCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hash [FILE]",
		Short: "Print the digest of a policy's rules of recovery",
		Long: "Print the digest of the rules of recovery: SHA-256 over their canonical JSON (RFC 8785). Runs and reports name the\n" +
			"rules by it. Without a file, that of the rules built in.",
		Example: "  arl policy hash policy.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			p, err := a.recoveryPolicy(strings.Join(files, ""))
			if err != nil {
				return err
			}
			if a.settings.output == outputJSON {
				return a.printJSON(struct {
					Recovery string `json:"recovery"`
				}{string(p.Hash())})
			}
			return a.printText(string(p.Hash()) + "\n")
		},
	}
}

func (a *app) policyDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff [OLDER] NEWER",
		Short: "Show what changes from one policy file to another",
		Long: "Show what changes from one policy file to another, whatever their comments and spelling. With one file, what it\n" +
			"changes of the default. Nothing is printed if they say the same.",
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
				was, err = plainDefault(whole)
			}
			if err != nil {
				return err
			}
			if a.settings.output == outputJSON {
				return a.printPolicyChanges(was, is)
			}
			return a.printText(string(diff.Diff(older, was, newer, is)))
		},
	}
}

// plainPolicy returns a policy file without comments, in one order and spelling,
// and whether it has more than the rules of recovery.
func (a *app) plainPolicy(file string) (text []byte, whole bool, err error) {
	data, err := a.readInput(file, policyMax)
	if err != nil {
		return nil, false, err
	}
	if _, whole = policyParts(data); whole {
		policy, err := parsePolicy(file, data)
		if err != nil {
			return nil, true, withExit(exitConfig, err)
		}
		text, err = formatPolicy(policy)
		return text, true, err
	}
	p, err := recovery.Load(file, data)
	if err != nil {
		return nil, false, withExit(exitConfig, err)
	}
	text, err = plainRules(p)
	return text, false, err
}

func plainRules(p *recovery.Policy) ([]byte, error) {
	return yaml.MarshalWithOptions(yaml.MapSlice{{Key: "recovery", Value: p}}, yaml.IndentSequence(true))
}

// plainDefault is the default policy as plainPolicy writes it.
func plainDefault(whole bool) ([]byte, error) {
	rules, err := plainRules(recovery.Default())
	if err != nil || !whole {
		return rules, err
	}
	members, err := formatPolicy(coord.Genesis(""))
	return slices.Concat(members, rules), err
}

// defaultPolicyFile is the file of the policy that applies where no other is given:
// what a ledger begins with, and the rules that are built in.
func defaultPolicyFile() ([]byte, error) {
	members, err := formatPolicy(coord.Genesis(""))
	return slices.Concat(members, []byte("\n"), recovery.DefaultDocument()), err
}

func (a *app) policyExplainCommand() *cobra.Command {
	var o engineOptions
	var file string
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show the reasoning behind every decision on a case",
		Long: "Show the reasoning behind every decision on a case, step by step: effect gate, guards, rule, position on the\n" +
			"ladder, limits, result. The case is a line of a scenario; its recorded results are the answers.",
		Example: "  arl policy explain --case case.json --policy policy.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.engine(&o)
			if err != nil {
				return err
			}
			return a.explainCase(cmd.Context(), &e, file)
		},
	}
	cmd.Flags().StringVar(&file, "case", "", "file with one case; - for standard input (mandatory)")
	o.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("case") // the flag exists
	return cmd
}

// explainedDecision is one decision on a case, with the reasoning behind it.
type explainedDecision struct {
	Decision  int             `json:"decision"` // from 1
	Step      string          `json:"step"`
	Reasoning []recovery.Step `json:"reasoning"`
	Outcome   string          `json:"outcome,omitzero"` // of the action; none where it ends the case
}

func (a *app) explainCase(ctx context.Context, e *engineChoice, file string) error {
	c, err := a.readCase(e, file)
	if err != nil {
		return err
	}
	var decisions []explainedDecision
	e.Asked = func(h *recovery.History, now int64) {
		decisions = append(decisions, explainedDecision{Decision: len(decisions) + 1, Step: h.Step, Reasoning: recovery.Explain(h, e.Policy, now)})
	}
	done, err := e.Recover(ctx, &c)
	if err != nil {
		return err
	}
	for i := range decisions {
		if rung := &done.Trace.Rungs[i]; rung.Strategy != string(recovery.Escalate) {
			decisions[i].Outcome = rung.Result
		}
		if err := a.printDecision(&decisions[i]); err != nil {
			return err
		}
	}
	if a.settings.output == outputJSON {
		return nil
	}
	if hint := done.Trace.Hint(); hint != "" {
		fmt.Fprintf(a.err, "%s\n", hint)
	}
	return a.printText(fmt.Sprintf("%s: %s\n", done.Trace.Case, words(string(done.Trace.Status), done.Trace.Reason)))
}

func (a *app) printDecision(d *explainedDecision) error {
	if a.settings.output == outputJSON {
		return a.printJSON(d)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "decision %s, step %s\n", strconv.Itoa(d.Decision), d.Step)
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
	return a.printText(b.String())
}
