package rollouts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/policyfile"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/adversary"
	"recoveryledger/coord/recovery/scenario"
)

// mutateOptions are the flags of arl scenario mutate.
type mutateOptions struct {
	policy string
	kinds  []string
}

// MutateCommand returns arl scenario mutate.
func MutateCommand(t *terminal.Terminal) *cobra.Command {
	var o mutateOptions
	cmd := &cobra.Command{
		Use:   "mutate SCENARIO",
		Short: "Make cases that tempt a policy to do harm, and see whether it does",
		Long: "Mutate each case of a scenario in every way that is known to tempt a policy: an effect that is left out, a success\n" +
			"that is a lie, a late success, a refusal that gives in, a budget that ends at the last rung. The mutated cases are a\n" +
			"scenario on standard output. With --policy they are taken through the policy instead, and the output says which\n" +
			"invariants hold. The verdicts come from what was done, not from what the policy thinks right. The exit code is 7 if\n" +
			"one is broken. SCENARIO is a file, or - for standard input.",
		Example: "  arl scenario mutate scenario.ndjson --policy candidate.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runMutations(cmd.Context(), t, args[0], &o) },
	}
	cmd.Flags().StringVar(&o.policy, "policy", "", "policy file that the mutated cases are taken through")
	cmd.Flags().StringSliceVar(&o.kinds, "mutation", nil, "mutations to make (default: all)")
	return cmd
}

func runMutations(ctx context.Context, t *terminal.Terminal, file string, o *mutateOptions) error {
	all := adversary.Mutations()
	var known []string
	for i := range all {
		known = append(known, all[i].Name)
	}
	for _, name := range o.kinds {
		if !slices.Contains(known, name) {
			return exit.Usagef("--mutation %s: want one of %s", name, strings.Join(known, ", "))
		}
	}
	all = slices.DeleteFunc(all, func(m adversary.Mutation) bool { return len(o.kinds) > 0 && !slices.Contains(o.kinds, m.Name) })
	take := func(_ context.Context, out io.Writer, c *scenario.Case) error { return writeMutations(out, all, c) }
	var trial *adversary.Trial
	if o.policy != "" {
		document, err := t.ReadGiven(o.policy, policyfile.Max)
		if err != nil {
			return err
		}
		policy, err := recovery.Load(o.policy, document)
		if err != nil {
			return exit.With(exit.Config, err)
		}
		trial = adversary.NewTrial(policy, all)
		take = func(ctx context.Context, _ io.Writer, c *scenario.Case) error { return trial.Take(ctx, c) }
	}
	out := bufio.NewWriter(t.Out)
	err := t.WithInput(file, func(in io.Reader) error {
		// The cases are decoded in order; there is nothing to decide side by side.
		read := scenario.Pipeline[scenario.Case]{Workers: 1, Do: func(_ context.Context, c *scenario.Case) (scenario.Case, error) { return *c, nil }}
		for r, err := range read.Run(ctx, file, in) {
			if err != nil {
				return err
			}
			if err := take(ctx, out, &r.Value); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, exit.With(exit.IO, out.Flush())); err != nil || trial == nil {
		return err
	}
	return printTrial(t, trial)
}

// writeMutations writes a case as each mutation makes it.
func writeMutations(out io.Writer, mutations []adversary.Mutation, c *scenario.Case) error {
	for i := range mutations {
		line, err := scenario.Encode(mutations[i].Apply(c))
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func printTrial(t *terminal.Terminal, trial *adversary.Trial) error {
	verdicts, broken := trial.Verdicts()
	l := t.NewList("MUTATION", "CASES", "BROKEN", "INVARIANT")
	for i := range verdicts {
		v := &verdicts[i]
		if err := l.Add(v, v.Mutation, strconv.FormatInt(v.Cases, 10), strconv.FormatInt(v.Broken, 10), v.Must); err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	if broken > 0 {
		return exit.With(exit.Rejected, fmt.Errorf("the policy breaks %d of %d invariants", broken, len(verdicts)))
	}
	return nil
}
