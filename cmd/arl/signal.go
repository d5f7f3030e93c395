package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

// signalOptions are the flags of arl signal submit.
type signalOptions struct {
	access.SignerFlags
	subject, class, code, workflow string
	standing, effects, replay      string
	since, lastKnownGood, severity string
	detail, out                    string
	evidence                       []string
	attempt, retryAfter            optional
	supersedes                     optional
	force                          bool // take words that the taxonomy does not have
}

func (a *app) signalCommand() *cobra.Command {
	var t access.Target
	cmd := &cobra.Command{
		Use:     "signal",
		Short:   "Report failures",
		Example: "  arl signal submit --subject planner#step-7 --class tool --code error --key planner.key",
	}
	t.Register(cmd.PersistentFlags())
	cmd.AddCommand(a.signalSubmitCommand(&t))
	return cmd
}

func (a *app) signalSubmitCommand(t *access.Target) *cobra.Command {
	var o signalOptions
	cmd := &cobra.Command{
		Use:   "submit",
		Short: "Report the failure of an execution",
		Long: "Report the failure of an execution, with a class and a code of the failure taxonomy. An agent signals when\n" +
			"its retries are spent, or when effects are left that it cannot reconcile (SIG-1).",
		Example: "  arl signal submit --subject planner#step-7 --class tool --code error --effects none --key planner.key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkReferences(); err != nil {
				return err
			}
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.signalSubmit(cmd.Context(), c, &o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.subject, "subject", "", "execution that failed, issuer#id (required)")
	flags.StringVar(&o.class, "class", "", "class of the failure, such as tool (required)")
	flags.StringVar(&o.code, "code", "", "code within the class, such as error (required)")
	flags.StringVar(&o.workflow, "workflow", "", "workflow of the subject (default: looked up)")
	flags.StringVar(&o.standing, "standing", "", "standing of the signer: executor|upstream|downstream|monitor|operator (default: executor for an execution of the signer, otherwise monitor)")
	flags.StringVar(&o.effects, "effects", string(entry.EffectsUnknown), "effects that are left: none|partial|complete|unknown")
	flags.StringVar(&o.replay, "replay-safety", string(entry.ReplayUnknown), "whether a repetition is safe: safe|unsafe|unknown")
	flags.StringSliceVar(&o.evidence, "evidence", nil, "digest of the evidence, or digest=uri")
	flags.StringVar(&o.since, "since", "", "first execution in doubt, issuer#id")
	manual.NameValue(flags, "since", "REF")
	flags.StringVar(&o.lastKnownGood, "last-known-good", "", "last good execution or checkpoint, issuer#id")
	flags.StringVar(&o.severity, "severity", "", "severity: info|warning|error|critical")
	flags.Var(&o.attempt, "attempt", "number of the failed attempt")
	flags.Var(&o.retryAfter, "retry-after-ms", "time to wait before the next attempt, in milliseconds")
	flags.Var((*redacted)(&o.detail), "detail", "text for people: write no content of prompts or messages")
	flags.Var(&o.supersedes, "supersedes", "index of the signal that this one supersedes: an own signal, or the opening signal of the subject's recorded incident")
	o.Register(flags)
	flags.StringVar(&o.out, "out", "", "write the receipt, and all that is needed to verify its signer, to FILE")
	flags.BoolVar(&o.force, "force", false, "use a class or code that is not in the taxonomy")
	for _, name := range []string{"subject", "class", "code"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

func (a *app) signalSubmit(ctx context.Context, c *access.Connection, o *signalOptions) error {
	if err := checkTaxonomy(o.class, o.code, o.force); err != nil {
		return err
	}
	if err := terminal.CheckOut(o.out); err != nil {
		return err
	}
	signer, err := a.machine().Signer(ctx, c, o.SignerFlags, node.Operator)
	if err != nil {
		return err
	}
	body := o.body()
	if body.Wid = entry.WorkflowID(o.workflow); body.Wid == "" {
		if body.Wid, err = c.WorkflowOf(ctx, body.Subject); err != nil {
			return err
		}
	}
	if body.Standing == "" {
		body.Standing = entry.StandingOf(signer.Principal, body.Subject)
	}
	if index := o.supersedes.value; index != nil {
		if body.Supersedes, err = c.RefTo(ctx, uint64(*index)); err != nil {
			return err
		}
	}
	return a.signAndSubmit(ctx, c, signer, body, o.out)
}

func (o *signalOptions) checkReferences() error {
	for _, r := range []struct{ flag, text string }{{"subject", o.subject}, {"since", o.since}, {"last-known-good", o.lastKnownGood}} {
		if issuer, id := entry.Ref(r.text).Split(); (r.text != "" || r.flag == "subject") && (issuer == "" || id == "") {
			return exit.Usagef("--%s %q: want a reference, issuer#id, such as planner#step-7", r.flag, r.text)
		}
	}
	return nil
}

// checkTaxonomy refuses a class or a code that the taxonomy does not have. Readers treat such a
// word as unknown (SIG-2), and it stays in the log forever.
func checkTaxonomy(class, code string, force bool) error {
	if force {
		return nil
	}
	if err := entry.CheckTaxonomy(class, code); err != nil {
		return exit.Usagef("%w: correct the word, or pass --force to send the word as it is, which counts as unknown", err)
	}
	return nil
}

func (o *signalOptions) body() *entry.Signal {
	s := &entry.Signal{
		Subject: entry.Ref(o.subject), Class: o.class, Code: o.code, Standing: entry.Standing(o.standing),
		Effects: entry.Effects(o.effects), ReplaySafety: entry.ReplaySafety(o.replay), ObservedAt: time.Now().UnixMilli(),
		Since: entry.Ref(o.since), LastKnownGood: entry.Ref(o.lastKnownGood), Severity: entry.Severity(o.severity), Detail: o.detail,
		Attempt: o.attempt.value, RetryAfterMS: o.retryAfter.value,
	}
	for _, text := range o.evidence {
		digest, uri, _ := strings.Cut(text, "=")
		s.Evidence = append(s.Evidence, entry.Evidence{Digest: entry.Digest(digest), URI: uri})
	}
	return s
}
