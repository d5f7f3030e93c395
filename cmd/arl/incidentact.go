package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/ledger/redact"
)

// actOptions are the flags of the verbs that write about an incident.
type actOptions struct {
	access.SignerFlags
	reason string
	yes    bool
	out    string

	dismissed           []string // INDEX=REASON
	corroborated, wrong []uint
	members             []string
	refuse              bool
}

// verb is what a command that writes about an incident is called.
type verb struct{ name, short, long string }

// actCommand returns a command that writes about one incident.
func (a *app) actCommand(o *access.Where, act *actOptions, is verb, run func(context.Context, *incidentContext) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: is.name + " INCIDENT", Short: is.short, Long: is.long, Args: cobra.ExactArgs(1),
		Example: "  arl incident " + is.name + " 17 --reason 'checked with the customer' --key ann.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withIncident(cmd.Context(), o, args[0], func(i *incidentContext) error { return run(cmd.Context(), i) })
		},
	}
	flags := cmd.Flags()
	act.Register(flags)
	flags.BoolVar(&act.yes, "yes", false, "do not ask for confirmation")
	flags.StringVar(&act.out, "out", "", "write the receipt, and all that is needed to verify its signer, to FILE")
	return cmd
}

// needsReason adds the required reason, which stays in the entry.
func (o *actOptions) needsReason(cmd *cobra.Command) *cobra.Command {
	needReason(cmd, &o.reason)
	return cmd
}

// leavesOut adds the flag for signals that a plan leaves out.
func (o *actOptions) leavesOut(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringArrayVar(&o.dismissed, "dismiss", nil, "signal to dismiss, INDEX=REASON; may be repeated")
	manual.NameValue(cmd.Flags(), "dismiss", "INDEX=REASON")
	return cmd
}

func (a *app) incidentEscalateCommand(o *access.Where) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"escalate", "Propose a plan to the approvers",
		"Propose the current plan to the approvers. An earlier proposal becomes void, and so do the answers to it."},
		func(ctx context.Context, i *incidentContext) error {
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActEscalate})
		})
	return act.leavesOut(act.needsReason(cmd))
}

func (a *app) incidentAuthorizeCommand(o *access.Where) *cobra.Command {
	return a.carryOutCommand(o, entry.ActAuthorize, "Authorize a plan that a quorum approved", "Authorize the proposal that a quorum of approvers approved.")
}

func (a *app) incidentAmendCommand(o *access.Where) *cobra.Command {
	return a.carryOutCommand(o, entry.ActAmend, "Extend a plan in force by an approved amend", "Extend the plan in force by the open proposal that a quorum of approvers approved.")
}

// carryOutCommand returns a command that carries out the proposal of an incident.
func (a *app) carryOutCommand(o *access.Where, carryOut entry.Act, short, long string) *cobra.Command {
	var act actOptions
	return act.needsReason(a.actCommand(o, &act, verb{string(carryOut), short,
		terminal.WrapText(long+" The coordinator does so by itself. Use this command while the coordinator does not run. Without a quorum the exit code is 8.", terminal.WidthHelp)},
		func(ctx context.Context, i *incidentContext) error {
			if err := quorumOf(i.v); err != nil {
				return err
			}
			return a.decide(ctx, i, &act, coord.Order{Act: carryOut})
		}))
}

// quorumOf reports whether a proposal waits that enough approvers approve.
func quorumOf(v *coord.IncidentView) error {
	if v.Proposal == nil {
		return exit.With(exit.Quorum, fmt.Errorf("no proposal waits for incident %d: arl incident escalate makes one", v.ID))
	}
	if p := v.Proposal; !p.Approved() {
		return exit.With(exit.Quorum, fmt.Errorf("%d of %d approvals of proposal %d: arl incident approve adds one", len(p.Approve), p.Quorum, p.Ref.Index))
	}
	return nil
}

func (a *app) incidentDenyCommand(o *access.Where) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"deny", "Dismiss an incident: nothing is undone",
		"Dismiss an incident: nothing is undone, and its fence is lifted. Every signal gets a disposition, inconclusive\n" +
			"by default. A dismissed signal costs its issuer quota. A signal that the approver corroborates by its own word\n" +
			"gives some quota back."},
		func(ctx context.Context, i *incidentContext) error {
			if i.v.State.Decided() { // a deny would acknowledge
				return exit.With(exit.Conflict, fmt.Errorf("incident %d is %s: it is too late to dismiss it; arl escalation acknowledge is for incidents that nobody answered", i.v.ID, i.v.State))
			}
			signals, err := a.dispositions(ctx, i, &act)
			if err != nil {
				return err
			}
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActDeny, Signals: signals})
		})
	cmd.Flags().UintSliceVar(&act.corroborated, "corroborated", nil, "indexes of signals that the approver found true")
	cmd.Flags().UintSliceVar(&act.wrong, "dismiss", nil, "indexes of signals that the approver found false")
	return act.needsReason(cmd)
}

// dispositions judges every signal of an incident, by the word of who signs.
func (a *app) dispositions(ctx context.Context, i *incidentContext, o *actOptions) (list []entry.Disposition, err error) {
	var by entry.Principal
	if len(o.corroborated) > 0 {
		signer, err := a.signedBy(ctx, i, o.SignerFlags)
		if err != nil {
			return nil, err
		}
		by = signer.Principal
	}
	return i.f.State.Dispositions(i.v.ID, by, indexes(o.corroborated), indexes(o.wrong)), nil
}

// indexes are the values of a flag of indexes.
func indexes(values []uint) []uint64 {
	list := make([]uint64, len(values))
	for i, v := range values {
		list[i] = uint64(v)
	}
	return list
}

func (a *app) incidentOverrideCommand(o *access.Where) *cobra.Command {
	var act actOptions
	return act.needsReason(a.actCommand(o, &act, verb{"override", "Stop a plan in force",
		"Stop a plan in force: members without an outcome are withheld. One operator can stop a plan, or as many\n" +
			"approvers as the policy asks for."},
		func(ctx context.Context, i *incidentContext) error {
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActOverride})
		}))
}

func (a *app) incidentReleaseCommand(o *access.Where) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"release", "Lift the fence around members that have an outcome",
		"Lift the fence around members that have an outcome, so that new executions may depend on them again. The signer\n" +
			"must be an approver who does not own the members."},
		func(ctx context.Context, i *incidentContext) error {
			order := coord.Order{Act: entry.ActRelease}
			for _, member := range act.members {
				order.Members = append(order.Members, entry.Ref(member))
			}
			return a.decide(ctx, i, &act, order)
		})
	cmd.Flags().StringSliceVar(&act.members, "member", nil, "execution to release, issuer#id (required)")
	_ = cmd.MarkFlagRequired("member") // the flag exists
	cmd.Example = "  arl incident release 17 --member planner#step-7 --reason 'looked at' --key ann.key"
	return act.needsReason(cmd)
}

func (a *app) incidentRecordCommand(o *access.Where) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"record", "Close an incident with its recovery record",
		"Close an incident with a recovery record, which counts the outcomes. Members whose agents reported nothing in\n" +
			"time become unknown; the command writes this first. The coordinator closes incidents by itself. Approvers may\n" +
			"close an incident after the deadline if the coordinator is silent. The exit code is 11 if not everything was\n" +
			"undone."},
		func(ctx context.Context, i *incidentContext) error { return a.record(ctx, i, &act) })
	cmd.Example = "  arl incident record 17 --key ann.key"
	return cmd
}

// record closes what nobody reports, and registers the record with it.
func (a *app) record(ctx context.Context, i *incidentContext, act *actOptions) error {
	signer, err := a.signedBy(ctx, i, act.SignerFlags)
	if err != nil {
		return err
	}
	var batch []*entry.Entry
	for o, open := i.f.State.DraftUnknown(i.v.ID, i.f.Now); open; o, open = i.f.State.DraftUnknown(i.v.ID, i.f.Now) {
		e, err := i.seal(signer, o)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Err, "%s is unknown: its agent reported nothing in time\n", o.Exec)
		batch = append(batch, e)
	}
	r, err := i.f.State.DraftRecord(i.v.ID)
	if err != nil {
		return err
	}
	e, err := i.seal(signer, r)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "incident %d ends %s: %s\n", i.v.ID, r.State, words.Tally(r.Tally))
	if err := a.Confirm(fmt.Sprintf("Sign this as %s?", signer.Principal), act.yes); err != nil {
		return err
	}
	if err := a.submit(ctx, i.c, append(batch, e), act.out); err != nil {
		return err
	}
	closed, err := i.f.Incident(i.v.ID) // seal has taken the record up
	if err != nil {
		return err
	}
	return incomplete(closed.State)
}

// decide drafts a decision, shows what it would do, asks, and registers it.
func (a *app) decide(ctx context.Context, i *incidentContext, act *actOptions, order coord.Order) error {
	order.Incident, order.Reason = i.v.ID, act.reason
	var err error
	if order.Dismissed, err = parseDismissed(act.dismissed); err != nil {
		return err
	}
	d, err := i.f.State.Draft(order, i.f.Now)
	if err != nil {
		return err
	}
	if d.RollbackSet != nil {
		var without []uint64
		for _, u := range d.Dismissed {
			without = append(without, u.Index)
		}
		if err := a.showPlan(i, without, d.Pin.Size); err != nil {
			return err
		}
	} else if err := a.forPeople(a.Err).PrintObject(nil, incidentFields(i.v)...); err != nil {
		return err
	}
	return a.write(ctx, i, act, d)
}

// parseDismissed reads signals to leave out.
func parseDismissed(texts []string) (list []entry.Dismissal, err error) {
	for _, text := range texts {
		number, reason, _ := strings.Cut(text, "=")
		index, err := strconv.ParseUint(number, 10, 64)
		if err != nil || reason == "" {
			return nil, exit.Usagef("--dismiss %s: want INDEX=REASON", text)
		}
		list = append(list, entry.Dismissal{Index: index, Reason: redact.Text(reason)})
	}
	return list, nil
}

// showPlan shows, on stderr, the plan for the signals registered before size.
func (a *app) showPlan(i *incidentContext, without []uint64, size uint64) error {
	view := i.f.PlanAt(i.v.ID, without, size)
	if err := a.forPeople(a.Err).printPlan(i.f, i.v, &view.Plan); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Err)
	return err
}

// write asks, completes, signs and registers an entry.
func (a *app) write(ctx context.Context, i *incidentContext, act *actOptions, body entry.Body) error {
	signer, err := a.signedBy(ctx, i, act.SignerFlags)
	if err != nil {
		return err
	}
	e, err := i.seal(signer, body)
	if err != nil {
		return err
	}
	if err := a.Confirm(fmt.Sprintf("Sign this as %s?", signer.Principal), act.yes); err != nil {
		return err
	}
	return a.submit(ctx, i.c, []*entry.Entry{e}, act.out)
}

// seal completes and signs an entry, and takes it up into the state that was
// derived here. What that would not admit is not sent.
func (i *incidentContext) seal(signer *access.Signer, body entry.Body) (*entry.Entry, error) {
	h := entry.HeaderOf(body)
	complete := keys.NewHeader(signer.Principal, i.c.Root.Origin)
	h.V, h.Aud, h.JTI, h.Iss, h.Iat = complete.V, complete.Aud, complete.JTI, complete.Iss, i.f.Now/1000
	e, err := entry.New(body)
	if err != nil {
		return nil, err
	}
	if err := signer.Sign(e); err != nil {
		return nil, err
	}
	state := i.f.State
	if err := state.Admit(e, state.Size(), i.f.Now); err != nil {
		return nil, err
	}
	state.Apply(e, state.Size(), i.f.Now)
	return e, nil
}

func (a *app) incidentApproveCommand(o *access.Where) *cobra.Command {
	var act actOptions
	var hours int64
	cmd := a.actCommand(o, &act, verb{"approve", "Approve or refuse the proposed plan",
		"Approve exactly the plan of the proposal in force, or with --refuse refuse it. The command computes the plan\n" +
			"from the log's entries. It signs nothing if the rollback set differs from the set of the proposal (exit code 5)."},
		func(ctx context.Context, i *incidentContext) error {
			return a.approve(ctx, i, &act, hours)
		})
	cmd.Flags().BoolVar(&act.refuse, "refuse", false, "refuse it")
	cmd.Flags().Int64Var(&hours, "hours", 24, "time for which the answer is valid")
	return act.needsReason(cmd)
}

// approve recomputes the plan that is proposed, shows it, and signs an answer.
func (a *app) approve(ctx context.Context, i *incidentContext, act *actOptions, hours int64) error {
	f, v, p := i.f, i.v, i.v.Proposal
	if p == nil {
		return exit.With(exit.Conflict, fmt.Errorf("no proposal waits for incident %d, which is %s", v.ID, v.State))
	}
	if err := a.showPlan(i, p.Dismissed, p.Pin.Size); err != nil {
		return err
	}
	answer, err := v.Answer(&f.PlanAt(v.ID, p.Dismissed, p.Pin.Size).Plan, act.refuse, act.reason, f.Now/1000+hours*3600)
	if err != nil {
		return exit.With(exit.Verification, err)
	}
	fmt.Fprintf(a.Err, "%s proposal %d by %s: %s\n", answer.Verdict, p.Ref.Index, p.Issuer, terminal.Counted(p.RollbackSet.Size, "member"))
	return a.write(ctx, i, act, answer)
}
