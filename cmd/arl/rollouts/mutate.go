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
	"recoveryledger/coord/recovery/engine"
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
	tempted := &temptations{mutations: all, counts: make([]temptation, len(all))}
	if o.policy != "" {
		document, err := t.ReadGiven(o.policy, policyfile.Max)
		if err != nil {
			return err
		}
		if tempted.policy, err = recovery.Load(o.policy, document); err != nil {
			return exit.With(exit.Config, err)
		}
	}
	out := bufio.NewWriter(t.Out)
	err := t.WithInput(file, func(in io.Reader) error {
		// The cases are decoded in order; there is nothing to decide side by side.
		read := scenario.Pipeline[scenario.Case]{Workers: 1, Do: func(_ context.Context, c *scenario.Case) (scenario.Case, error) { return *c, nil }}
		for r, err := range read.Run(ctx, file, in) {
			if err != nil {
				return err
			}
			if err := tempted.tempt(ctx, out, &r.Value); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, exit.With(exit.IO, out.Flush())); err != nil || tempted.policy == nil {
		return err
	}
	return tempted.print(t)
}

// temptation is what came of the cases of a mutation.
type temptation struct {
	Mutation string   `json:"mutation"`
	Must     string   `json:"must"`
	Cases    int64    `json:"cases"`
	Broken   int64    `json:"broken"`
	First    []string `json:"first,omitzero"` // ids of the first cases that break the invariant
}

// temptations are mutations, and the policy that they tempt; nil: the cases are written.
type temptations struct {
	policy    *recovery.Policy
	mutations []adversary.Mutation
	counts    []temptation
}

const firstMax = 5 // ids that name the cases of a temptation

func (x *temptations) tempt(ctx context.Context, out io.Writer, c *scenario.Case) error {
	for i := range x.mutations {
		made := x.mutations[i].Apply(c)
		if x.policy == nil {
			line, err := scenario.Encode(made)
			if err == nil {
				_, err = out.Write(append(line, '\n'))
			}
			if err != nil {
				return err
			}
			continue
		}
		config := engine.Config{Policy: x.policy}
		r, err := config.Recover(ctx, &made)
		if err != nil {
			return err
		}
		n := &x.counts[i]
		if n.Cases++; x.mutations[i].Broken(&r.Trace) {
			if n.Broken++; len(n.First) < firstMax {
				n.First = append(n.First, made.ID)
			}
		}
	}
	return nil
}

func (x *temptations) print(t *terminal.Terminal) error {
	broken := 0
	l := t.NewList("MUTATION", "CASES", "BROKEN", "INVARIANT")
	for i := range x.counts {
		n := &x.counts[i]
		n.Mutation, n.Must = x.mutations[i].Name, x.mutations[i].Must
		if n.Broken > 0 {
			broken++
		}
		if err := l.Add(n, n.Mutation, strconv.FormatInt(n.Cases, 10), strconv.FormatInt(n.Broken, 10), n.Must); err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	if broken > 0 {
		return exit.With(exit.Rejected, fmt.Errorf("the policy breaks %d of %d invariants", broken, len(x.counts)))
	}
	return nil
}
