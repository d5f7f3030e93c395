package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
)

// actOptions are the flags of the verbs that write about an incident.
type actOptions struct {
	signerFlags
	reason string
	yes    bool
	out    string

	unfounded           []string // INDEX=REASON
	corroborated, wrong []uint
	members             []string
	refuse              bool
}

// verb is what a command that writes about an incident is called.
type verb struct{ name, short, long string }

// actCommand returns a command that writes about one incident.
func (a *app) actCommand(o *logOptions, act *actOptions, is verb, run func(context.Context, *atHand) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: is.name + " INCIDENT", Short: is.short, Long: is.long, Args: cobra.ExactArgs(1),
		Example: "  arl incident " + is.name + " 17 --reason 'checked with the customer' --key ann.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withIncident(cmd.Context(), o, args[0], func(i *atHand) error { return run(cmd.Context(), i) })
		},
	}
	flags := cmd.Flags()
	act.register(flags)
	flags.BoolVar(&act.yes, "yes", false, "do not ask")
	flags.StringVar(&act.out, "out", "", "file for the receipt, with those of the policies and keys that it counts by")
	return cmd
}

// needsReason adds the mandatory reason, which stays in the entry.
func (o *actOptions) needsReason(cmd *cobra.Command) *cobra.Command {
	needReason(cmd, &o.reason)
	return cmd
}

// leavesOut adds the flag for signals that a plan leaves out.
func (o *actOptions) leavesOut(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringArrayVar(&o.unfounded, "unfounded", nil, "signal to leave out, INDEX=REASON; may be repeated")
	nameValue(cmd.Flags(), "unfounded", "INDEX=REASON")
	return cmd
}

func (a *app) incidentEscalateCommand(o *logOptions) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"escalate", "Propose a plan to the approvers",
		"Propose the plan as it is now to the approvers. A proposal before it, and what was answered to it, is void."},
		func(ctx context.Context, i *atHand) error {
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActEscalate})
		})
	return act.leavesOut(act.needsReason(cmd))
}

func (a *app) incidentAuthorizeCommand(o *logOptions) *cobra.Command {
	var act actOptions
	return act.needsReason(a.actCommand(o, &act, verb{"authorize", "Authorize what a quorum has approved",
		"Authorize the proposal that enough approvers have approved. The coordinator does so by itself; this is for when it\n" +
			"does not run. Without a quorum, exit code 8."},
		func(ctx context.Context, i *atHand) error {
			if err := quorumOf(i.v); err != nil {
				return err
			}
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActAuthorize})
		}))
}

func (a *app) incidentAmendCommand(o *logOptions) *cobra.Command {
	var act actOptions
	return act.needsReason(a.actCommand(o, &act, verb{"amend", "Extend a plan in force as a quorum has approved",
		"Extend the plan in force as the approvers of the proposal that waits have approved. The coordinator does so by\n" +
			"itself; this is for when it does not run. Without a quorum, exit code 8."},
		func(ctx context.Context, i *atHand) error {
			if err := quorumOf(i.v); err != nil {
				return err
			}
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActAmend})
		}))
}

// quorumOf reports whether a proposal waits that enough approvers approve.
func quorumOf(v *coord.IncidentView) error {
	if v.Proposal == nil {
		return withExit(exitQuorum, fmt.Errorf("no proposal waits for incident %d: arl incident escalate makes one", v.ID))
	}
	if have := int64(len(v.Proposal.Approve)); have < v.Proposal.Quorum {
		return withExit(exitQuorum, fmt.Errorf("%d of %d approvals of proposal %d: arl incident approve adds one", have, v.Proposal.Quorum, v.Proposal.Ref.Index))
	}
	return nil
}

func (a *app) incidentDenyCommand(o *logOptions) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"deny", "Dismiss an incident: nothing is undone",
		"Dismiss an incident: nothing is undone, and what was fenced is free again. Every signal is disposed of, as\n" +
			"inconclusive where nothing else is said. Unfounded ones cost their issuer quota; those that the approver\n" +
			"corroborates by its own word give some back."},
		func(ctx context.Context, i *atHand) error {
			signals, err := a.dispositions(ctx, i, &act)
			if err != nil {
				return err
			}
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActDeny, Signals: signals})
		})
	cmd.Flags().UintSliceVar(&act.corroborated, "corroborated", nil, "indexes of signals that were true, by the approver's word")
	cmd.Flags().UintSliceVar(&act.wrong, "unfounded", nil, "indexes of signals that were not")
	return act.needsReason(cmd)
}

// dispositions judges every signal of an incident. Those that were true are
// corroborated by who signs, so that their domain is the signer's.
func (a *app) dispositions(ctx context.Context, i *atHand, o *actOptions) (list []entry.Disposition, err error) {
	said := map[uint64]entry.Disposition{}
	if len(o.corroborated) > 0 {
		signer, err := a.signedBy(ctx, i, o.signerFlags)
		if err != nil {
			return nil, err
		}
		info, _ := i.f.State.Chain().Agent(signer.principal) // who is unknown is refused
		for _, index := range o.corroborated {
			said[uint64(index)] = entry.Disposition{Disposition: entry.Corroborated, Domains: []string{info.Domain}, Independent: true}
		}
	}
	for _, index := range o.wrong {
		said[uint64(index)] = entry.Disposition{Disposition: entry.NotFounded}
	}
	add := func(index uint64, one entry.Disposition) {
		one.Index = index
		list = append(list, one)
		delete(said, index)
	}
	for _, s := range i.v.Signals {
		one, judged := said[s.Index]
		if !judged {
			one.Disposition = entry.Inconclusive
		}
		add(s.Index, one)
	}
	for _, index := range slices.Sorted(maps.Keys(said)) { // not of the incident: the rules say so
		add(index, said[index])
	}
	return list, nil
}

func (a *app) incidentOverrideCommand(o *logOptions) *cobra.Command {
	var act actOptions
	return act.needsReason(a.actCommand(o, &act, verb{"override", "Stop a plan in force",
		"Stop a plan in force: what nobody has an outcome of is withheld. An operator's word does, or that of as many\n" +
			"approvers as the policy says."},
		func(ctx context.Context, i *atHand) error {
			return a.decide(ctx, i, &act, coord.Order{Act: entry.ActOverride})
		}))
}

func (a *app) incidentReleaseCommand(o *logOptions) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"release", "Lift the fence around members that have an outcome",
		"Lift the fence around members that have an outcome, so that others may build on them again. It takes an approver\n" +
			"who does not own them."},
		func(ctx context.Context, i *atHand) error {
			order := coord.Order{Act: entry.ActRelease}
			for _, member := range act.members {
				order.Members = append(order.Members, entry.Ref(member))
			}
			return a.decide(ctx, i, &act, order)
		})
	cmd.Flags().StringSliceVar(&act.members, "member", nil, "execution to release, issuer#id (mandatory)")
	_ = cmd.MarkFlagRequired("member") // the flag exists
	cmd.Example = "  arl incident release 17 --member planner#step-7 --reason 'looked at' --key ann.key"
	return act.needsReason(cmd)
}

func (a *app) incidentRecordCommand(o *logOptions) *cobra.Command {
	var act actOptions
	cmd := a.actCommand(o, &act, verb{"record", "Close an incident with what came of it",
		"Close an incident with the tally of its outcomes. Members whose agents have said nothing in time are unknown, which\n" +
			"is written before. The coordinator does so by itself; approvers may after the deadline, if it is silent. Exit code\n" +
			"11 if not everything was undone."},
		func(ctx context.Context, i *atHand) error { return a.record(ctx, i, &act) })
	cmd.Example = "  arl incident record 17 --key ann.key"
	return cmd
}

// record closes what nobody reports, and registers the record with it.
func (a *app) record(ctx context.Context, i *atHand, act *actOptions) error {
	signer, err := a.signedBy(ctx, i, act.signerFlags)
	if err != nil {
		return err
	}
	var batch []*entry.Entry
	for o, open := i.f.State.DraftUnknown(i.v.ID, i.f.now); open; o, open = i.f.State.DraftUnknown(i.v.ID, i.f.now) {
		e, err := i.seal(signer, o)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.err, "%s is unknown: its agent said nothing in time\n", o.Exec)
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
	fmt.Fprintf(a.err, "incident %d ends %s: %s\n", i.v.ID, r.State, tally(r.Tally))
	if err := a.confirm(fmt.Sprintf("Sign this as %s?", signer.principal), act.yes); err != nil {
		return err
	}
	if err := a.submit(ctx, i.c, append(batch, e), act.out); err != nil {
		return err
	}
	closed, err := i.f.incident(i.v.ID) // seal has taken the record up
	if err != nil {
		return err
	}
	return incomplete(closed.State)
}

// decide drafts a decision, shows what it would do, asks, and registers it.
func (a *app) decide(ctx context.Context, i *atHand, act *actOptions, order coord.Order) error {
	order.Incident, order.Reason = i.v.ID, act.reason
	var err error
	if order.Unfounded, err = parseUnfounded(act.unfounded); err != nil {
		return err
	}
	d, err := i.f.State.Draft(order, i.f.now)
	if err != nil {
		return err
	}
	if d.Scope != nil {
		var without []uint64
		for _, u := range d.Unfounded {
			without = append(without, u.Index)
		}
		if err := a.showPlan(i, without, d.Pin.Size); err != nil {
			return err
		}
	} else if err := a.forPeople(a.err).printObject(nil, incidentFields(i.v)...); err != nil {
		return err
	}
	return a.write(ctx, i, act, d)
}

// parseUnfounded reads signals to leave out.
func parseUnfounded(texts []string) (list []entry.Unfounded, err error) {
	for _, text := range texts {
		number, reason, _ := strings.Cut(text, "=")
		index, err := strconv.ParseUint(number, 10, 64)
		if err != nil || reason == "" {
			return nil, usage("--unfounded %s: want INDEX=REASON", text)
		}
		list = append(list, entry.Unfounded{Index: index, Reason: redact.Text(reason)})
	}
	return list, nil
}

// showPlan shows, on stderr, the plan for the signals registered before size.
func (a *app) showPlan(i *atHand, without []uint64, size uint64) error {
	view := i.f.planAt(i.v.ID, without, size)
	if err := a.forPeople(a.err).printPlan(i.f, i.v, server.NewPlan(i.v.ID, 0, view)); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.err)
	return err
}

// planAt computes the plan for the signals registered before size, without some.
func (f *folded) planAt(id uint64, without []uint64, size uint64) *coord.PlanView {
	for index := size; index < f.Size; index++ {
		without = append(without, index)
	}
	view, _ := f.State.Preview(id, without, f.now) // whoever asks has found it
	return view
}

// write asks, completes, signs and registers an entry.
func (a *app) write(ctx context.Context, i *atHand, act *actOptions, body entry.Body) error {
	signer, err := a.signedBy(ctx, i, act.signerFlags)
	if err != nil {
		return err
	}
	e, err := i.seal(signer, body)
	if err != nil {
		return err
	}
	if err := a.confirm(fmt.Sprintf("Sign this as %s?", signer.principal), act.yes); err != nil {
		return err
	}
	return a.submit(ctx, i.c, []*entry.Entry{e}, act.out)
}

// seal completes and signs an entry, and takes it up into the state that was
// derived here. What that would not admit is not sent.
func (i *atHand) seal(signer *signer, body entry.Body) (*entry.Entry, error) {
	h := entry.HeaderOf(body)
	complete := newHeader(signer.principal, i.c.root.Origin)
	h.V, h.Aud, h.JTI, h.Iss, h.Iat = complete.V, complete.Aud, complete.JTI, complete.Iss, i.f.now/1000
	e, err := entry.New(body)
	if err != nil {
		return nil, err
	}
	if err := signer.Sign(e); err != nil {
		return nil, err
	}
	state := i.f.State
	if err := state.Admit(e, state.Size(), i.f.now); err != nil {
		return nil, err
	}
	state.Apply(e, state.Size(), i.f.now)
	return e, nil
}

func (a *app) incidentApproveCommand(o *logOptions) *cobra.Command {
	var act actOptions
	var hours int64
	cmd := a.actCommand(o, &act, verb{"approve", "Approve exactly the plan that is proposed, or refuse it",
		"Approve exactly the plan that the proposal in force stands for, or with --refuse refuse it. The plan is computed here,\n" +
			"from the log's entries; one with another scope than the proposal's is not signed (exit code 5)."},
		func(ctx context.Context, i *atHand) error {
			return a.approve(ctx, i, &act, hours)
		})
	cmd.Flags().BoolVar(&act.refuse, "refuse", false, "refuse it")
	cmd.Flags().Int64Var(&hours, "hours", 24, "for how long the answer counts")
	return act.needsReason(cmd)
}

// approve recomputes the plan that is proposed, shows it, and signs an answer.
func (a *app) approve(ctx context.Context, i *atHand, act *actOptions, hours int64) error {
	f, v, p := i.f, i.v, i.v.Proposal
	if p == nil {
		return withExit(exitConflict, fmt.Errorf("no proposal waits for incident %d, which is %s", v.ID, v.State))
	}
	if err := a.showPlan(i, p.Unfounded, p.Pin.Size); err != nil {
		return err
	}
	if plan := f.planAt(v.ID, p.Unfounded, p.Pin.Size); plan.Scope != p.Scope && !act.refuse {
		return withExit(exitVerification, errors.New("the plan is another now than the one that is proposed: wait for a new proposal, or make one with arl incident escalate"))
	}
	verdict := "approve"
	if act.refuse {
		verdict = "refuse"
	}
	fmt.Fprintf(a.err, "%s proposal %d by %s: %d members\n", verdict, p.Ref.Index, p.Issuer, p.Scope.Size)
	return a.write(ctx, i, act, &entry.Approval{
		Header: entry.Header{Wid: v.Wid}, Incident: v.ID, Proposal: p.Ref, Verdict: verdict, Exp: f.now/1000 + hours*3600, Reason: act.reason,
	})
}
