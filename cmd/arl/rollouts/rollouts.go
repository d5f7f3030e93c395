// Package rollouts has the commands that roll a candidate policy out.
package rollouts

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/policyfile"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/ledger/redact"
)

// commands are the commands of one program.
type commands struct {
	*terminal.Terminal
	machine func() *access.Machine
}

// signing are the flags of commands that write an entry.
type signing struct {
	access.SignerFlags
	reason string
	yes    bool
}

func (s *signing) register(cmd *cobra.Command) {
	s.Register(cmd.Flags())
	cmd.Flags().StringVar(&s.reason, "reason", "", "reason, which stands in the entry: write no content of prompts or messages (required)")
	cmd.Flags().BoolVar(&s.yes, "yes", false, "do not ask for confirmation")
	_ = cmd.MarkFlagRequired("reason") // the flag exists
}

// Command returns arl rollout.
func Command(t *terminal.Terminal, machine func() *access.Machine) *cobra.Command {
	c := &commands{t, machine}
	var w access.Where
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Roll a candidate policy out: shadow, canary, promote, abort",
		Long: "Roll a candidate policy out. In a shadow the candidate decides beside the policy in force, and nothing is done. As\n" +
			"a canary it decides its share of the cases. A promotion makes it the policy in force; an abort ends the rollout.\n" +
			"Each step is an entry of the log. Which policy decides a case follows from the log and the id of the case.",
		Example: "  arl rollout status",
	}
	w.Register(cmd.PersistentFlags())
	cmd.AddCommand(c.start(&w), c.status(&w), c.promote(&w), c.abort(&w), c.history(&w), c.rehearse(&w))
	return cmd
}

// startOptions are the flags of arl rollout start.
type startOptions struct {
	signing
	policy, stage, salt string
	gates               []string
	share, tolerance    int64
	casesMin            int64
	within              time.Duration
}

func (c *commands) start(w *access.Where) *cobra.Command {
	var o startOptions
	cmd := &cobra.Command{
		Use:   "start ROLLOUT",
		Short: "Begin to roll a candidate policy out",
		Long: "Begin to roll out the rules of recovery of a policy file. ROLLOUT is an id that you choose. The rules in force are\n" +
			"the baseline. The thresholds of the candidate are those of the baseline: a candidate does not set its own gates.\n" +
			"An operator signs.",
		Example: "  arl rollout start r7 --policy candidate.yaml --stage canary --share 50 --reason 'fewer escalations'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.machine().WithConnection(cmd.Context(), &w.Target, func(conn *access.Connection) error {
				body, err := c.startEntry(cmd.Context(), conn, args[0], &o)
				if err != nil {
					return err
				}
				return c.sign(cmd.Context(), conn, body, node.Operator, &o.signing)
			})
		},
	}
	o.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.policy, "policy", "", "policy file of the candidate (required)")
	_ = cmd.MarkFlagRequired("policy") // the flag exists
	registerStage(flags, &o.stage, &o.share, string(entry.StageShadow))
	flags.StringVar(&o.salt, "salt", "", "salt of the draw of arms (default: a random one)")
	flags.StringSliceVar(&o.gates, "gates", gateNames(), "in what the arms are compared")
	flags.Int64Var(&o.tolerance, "tolerance-ppm", 0, "by how much more a case may cost or take, in parts per million")
	flags.Int64Var(&o.casesMin, "cases-min", 30, "pairs of cases below which no gate falls but unsafe")
	flags.DurationVar(&o.within, "within", 7*24*time.Hour, "time until the rollout is aborted if nobody has promoted it")
	return cmd
}

func registerStage(flags *pflag.FlagSet, stage *string, share *int64, byDefault string) {
	flags.StringVar(stage, "stage", byDefault, "shadow|canary")
	flags.Int64Var(share, "share", 0, fmt.Sprintf("cases that the candidate decides as a canary, in a thousand: 1 to %d", entry.ShareMax))
}

func gateNames() (names []string) {
	for _, gate := range entry.RolloutGates() {
		names = append(names, string(gate))
	}
	return names
}

func (c *commands) startEntry(ctx context.Context, conn *access.Connection, id string, o *startOptions) (*entry.Rollout, error) {
	document, err := c.ReadInput(o.policy, policyfile.Max)
	if err != nil {
		return nil, err
	}
	candidate, err := recovery.Load(o.policy, document)
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	chain, err := conn.Chain(ctx)
	if err != nil {
		return nil, err
	}
	body := &entry.Rollout{Rollout: id, Stage: entry.Stage(o.stage), SharePermille: o.share, Start: &entry.RolloutTerms{
		Salt: o.salt, TolerancePPM: o.tolerance, CasesMin: o.casesMin, DeadlineAt: time.Now().Add(o.within).UnixMilli()}}
	if o.salt == "" {
		body.Start.Salt = uuid.NewString()
	}
	for _, gate := range o.gates {
		body.Start.Gates = append(body.Start.Gates, entry.Gate(gate))
	}
	policy, _ := chain.Policy()
	return body, act.StartRollout(body, candidate, policy)
}

// sign completes a rollout entry, asks, and registers the entry.
func (c *commands) sign(ctx context.Context, conn *access.Connection, body *entry.Rollout, fallback entry.Principal, o *signing) error {
	body.Reason = redact.Text(o.reason)
	signer, err := c.machine().Signer(ctx, conn, o.SignerFlags, fallback)
	if err != nil {
		return err
	}
	body.Wid = entry.WorkflowID(body.Rollout)
	keys.FillHeader(body, signer.Principal, conn.Root.Origin)
	e, err := entry.New(body)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if err := c.Confirm(words.Summary(e.Body)+". Register it?", o.yes); err != nil {
		return err
	}
	return c.register(ctx, conn, signer, e)
}

func (c *commands) register(ctx context.Context, conn *access.Connection, by *access.Signer, e *entry.Entry) error {
	if err := by.Sign(e); err != nil {
		return err
	}
	at, err := conn.Client.Submit(ctx, e)
	if err != nil {
		return err
	}
	l := c.NewList("INDEX", "REGISTERED", "KIND", "ISSUER", "WHAT")
	row := struct {
		Index        uint64          `json:"index"`
		RegisteredAt int64           `json:"registered_at"`
		Kind         entry.Kind      `json:"kind"`
		Issuer       entry.Principal `json:"issuer"`
	}{at.Index, at.RegisteredAt, e.Kind, e.Header.Iss}
	if err := l.Add(row, strconv.FormatUint(at.Index, 10), words.Instant(at.RegisteredAt), string(e.Kind), string(e.Header.Iss), words.Summary(e.Body)); err != nil {
		return err
	}
	return l.Close()
}

func (c *commands) abort(w *access.Where) *cobra.Command {
	var o signing
	cmd := &cobra.Command{
		Use:   "abort ROLLOUT",
		Short: "End a rollout: the baseline decides again",
		Long: "End a rollout by one entry. From that entry on the baseline decides every case. Work that is under way ends under\n" +
			"its own policy. An operator or an approver signs.",
		Example: "  arl rollout abort r7 --reason 'the candidate escalates too much'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.machine().WithConnection(cmd.Context(), &w.Target, func(conn *access.Connection) error {
				return c.sign(cmd.Context(), conn, &entry.Rollout{Rollout: args[0], Op: entry.RolloutAbort}, node.Operator, &o)
			})
		},
	}
	o.register(cmd)
	return cmd
}

// view returns the rollouts of a log, folded on this machine.
func (c *commands) view(ctx context.Context, w *access.Where) (v api.Rollouts, err error) {
	err = c.machine().WithFold(ctx, w, func(_ *access.Log, f *access.Fold) error {
		v = f.State.Rollouts().View(f.State.Size(), f.State.Law())
		return nil
	})
	return v, err
}

func (c *commands) status(w *access.Where) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the rollout that is under way",
		Long:    "Show the rollout that is under way, as it follows from the log. The command reads and checks the whole log.",
		Example: "  arl rollout status",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := c.view(cmd.Context(), w)
			if err != nil {
				return err
			}
			return c.printStatus(&v)
		},
	}
	w.RegisterInPlace(cmd.Flags())
	w.RegisterKept(cmd.Flags())
	return cmd
}

func (c *commands) printStatus(v *api.Rollouts) error {
	if c.JSON() {
		return c.PrintJSON(v)
	}
	r := v.Current
	if r == nil {
		return c.PrintText("No rollout is under way.\n")
	}
	stage := string(r.Stage)
	if r.Stage == entry.StageCanary {
		stage = fmt.Sprintf("canary: the candidate decides %d of 1000 cases", r.SharePermille)
	}
	report := "none in the log that compares them"
	if r.Report != "" {
		report = string(r.Report) + ", does not say promote"
		if r.Promotes {
			report = string(r.Report) + ", says promote"
		}
	}
	var gates, waivers, groups []string
	for _, g := range r.Gates {
		gates = append(gates, string(g))
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		groups = append(groups, fmt.Sprintf("%s%s %d of %d, %d of %d", g.Class, g.Slice, g.Canary.Recovered, g.Canary.Cases, g.Control.Recovered, g.Control.Cases))
	}
	for _, p := range r.Waivers {
		waivers = append(waivers, string(p))
	}
	return c.PrintObject(v, terminal.Field{"rollout", r.Rollout}, terminal.Field{"stage", stage},
		terminal.Field{"candidate", string(r.CandidateDigest)}, terminal.Field{"baseline", string(r.BaselineDigest)},
		terminal.Field{"began", fmt.Sprintf("%s by %s, entry %d", words.Instant(r.StartedAt), r.By, r.Started)},
		terminal.Field{"deadline", words.Instant(r.DeadlineAt)}, terminal.Field{"gates", strings.Join(gates, ", ")},
		terminal.Field{"recovered", strings.Join(groups, "; ")},
		terminal.Field{"report", report}, terminal.Field{"lacks", strings.Join(r.Missing, "; ")}, terminal.Field{"waived by", strings.Join(waivers, ", ")})
}

func (c *commands) history(w *access.Where) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "List the rollouts that ended",
		Long:    "List the rollouts that ended, the newest first, as they follow from the log. The command reads and checks the whole log.",
		Example: "  arl rollout history",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := c.view(cmd.Context(), w)
			if err != nil {
				return err
			}
			l := c.NewList("ROLLOUT", "BEGAN", "ENDED", "OUTCOME", "WHY", "CANDIDATE")
			for i := range v.History {
				e := &v.History[i]
				if err := l.Add(e, e.Rollout, words.Instant(e.StartedAt), words.Instant(e.EndedAt), e.Outcome, view.WhyEnded(e), string(e.CandidateDigest)); err != nil {
					return err
				}
			}
			return l.Close()
		},
	}
	w.RegisterInPlace(cmd.Flags())
	w.RegisterKept(cmd.Flags())
	return cmd
}
