package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// signalOptions are the flags of arl signal submit.
type signalOptions struct {
	signerFlags
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
	var t target
	cmd := &cobra.Command{
		Use:     "signal",
		Short:   "Report failures",
		Example: "  arl signal submit --subject planner#step-7 --class tool --code error --key planner.key",
	}
	t.register(cmd.PersistentFlags())
	cmd.AddCommand(a.signalSubmitCommand(&t))
	return cmd
}

func (a *app) signalSubmitCommand(t *target) *cobra.Command {
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
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.signalSubmit(cmd.Context(), c, &o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.subject, "subject", "", "execution that failed, issuer#id (mandatory)")
	flags.StringVar(&o.class, "class", "", "class of the failure, such as tool (mandatory)")
	flags.StringVar(&o.code, "code", "", "code within the class, such as error (mandatory)")
	flags.StringVar(&o.workflow, "workflow", "", "workflow of the subject (default: looked up)")
	flags.StringVar(&o.standing, "standing", "", "how the signaler stands to the subject: executor|upstream|downstream|monitor|operator (default: executor of an own execution, else monitor)")
	flags.StringVar(&o.effects, "effects", string(entry.EffectsUnknown), "what is left of its effects: none|partial|complete|unknown")
	flags.StringVar(&o.replay, "replay-safety", string(entry.ReplayUnknown), "whether doing it again is safe: safe|unsafe|unknown")
	flags.StringSliceVar(&o.evidence, "evidence", nil, "digest of what shows it, or digest=uri")
	flags.StringVar(&o.since, "since", "", "first execution in doubt, issuer#id")
	nameValue(flags, "since", "REF")
	flags.StringVar(&o.lastKnownGood, "last-known-good", "", "execution or checkpoint that was good, issuer#id")
	flags.StringVar(&o.severity, "severity", "", "how bad it is: info|warning|error|critical")
	flags.Var(&o.attempt, "attempt", "which attempt failed")
	flags.Var(&o.retryAfter, "retry-after-ms", "when to try again, in milliseconds")
	flags.Var((*redacted)(&o.detail), "detail", "words for people, redacted: no content of prompts or messages")
	flags.Var(&o.supersedes, "supersedes", "index of the signal that this one follows: an own one, or what opened the recorded incident about the subject")
	o.register(flags)
	flags.StringVar(&o.out, "out", "", "file for the receipt, with those of the policies and keys that it counts by")
	flags.BoolVar(&o.force, "force", false, "use a class or code that is not in the taxonomy")
	for _, name := range []string{"subject", "class", "code"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

func (a *app) signalSubmit(ctx context.Context, c *connection, o *signalOptions) error {
	if err := checkTaxonomy(o.class, o.code, o.force); err != nil {
		return err
	}
	if err := checkOut(o.out); err != nil {
		return err
	}
	signer, err := a.signer(ctx, c, o.signerFlags, principalOperator)
	if err != nil {
		return err
	}
	body := o.body()
	body.Header = newHeader(signer.principal, c.root.Origin)
	if body.Wid = entry.WorkflowID(o.workflow); body.Wid == "" {
		if body.Wid, err = c.workflowOf(ctx, body.Subject); err != nil {
			return err
		}
	}
	if body.Standing == "" {
		body.Standing = entry.StandingMonitor
		if issuer, _ := body.Subject.Split(); issuer == signer.principal {
			body.Standing = entry.StandingExecutor
		}
	}
	if index := o.supersedes.value; index != nil {
		if body.Supersedes, err = c.refTo(ctx, uint64(*index)); err != nil {
			return err
		}
	}
	e, err := entry.New(body)
	if err != nil {
		return err
	}
	if err := signer.Sign(e); err != nil {
		return err
	}
	return a.submit(ctx, c, []*entry.Entry{e}, o.out)
}

// refTo returns the reference to an entry of the log.
func (c *connection) refTo(ctx context.Context, index uint64) (*entry.LogRef, error) {
	r, err := c.receipt(ctx, index)
	if err != nil {
		return nil, err
	}
	return &entry.LogRef{Index: index, LeafHash: merkle.HashLeaf(r.Leaf)}, nil
}

func (o *signalOptions) checkReferences() error {
	for _, r := range []struct{ flag, text string }{{"subject", o.subject}, {"since", o.since}, {"last-known-good", o.lastKnownGood}} {
		if issuer, id := entry.Ref(r.text).Split(); (r.text != "" || r.flag == "subject") && (issuer == "" || id == "") {
			return usage("--%s %q: want a reference, issuer#id, such as planner#step-7", r.flag, r.text)
		}
	}
	return nil
}

// checkTaxonomy refuses a class or code that the taxonomy does not have: readers
// act on it as unknown (SIG-2), and the log cannot forget it.
func checkTaxonomy(class, code string, force bool) error {
	if force {
		return nil
	}
	const remedy = ": correct it, or pass --force to use a word of your own, which counts as unknown"
	if classes := entry.Classes(); !slices.Contains(classes, class) {
		return usage("class %q is not in the taxonomy%s%s", class, among(class, classes), remedy)
	}
	if codes := entry.Codes(class); len(codes) > 0 && !slices.Contains(append(codes, entry.ClassUnknown), code) {
		return usage("code %q is not in the taxonomy for class %s%s%s", code, class, among(code, codes), remedy)
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

// workflowOf looks up the workflow of an execution among its agent's entries.
func (c *connection) workflowOf(ctx context.Context, subject entry.Ref) (entry.WorkflowID, error) {
	issuer, _ := subject.Split()
	for e, err := range c.client.Entries(ctx, client.Query{Agent: issuer, Kinds: []entry.Kind{entry.KindExecution}, Newest: true}) {
		if err != nil {
			return "", err
		}
		if x, ok := e.Body.(*entry.Execution); ok && x.Ref() == subject {
			return x.Wid, nil
		}
	}
	return "", withExit(exitNotFound, fmt.Errorf("no execution %s in the log", subject))
}
