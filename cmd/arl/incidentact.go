package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/act"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/incidents"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
)

// actOptions are the flags of the verbs that write about an incident.
type actOptions struct {
	access.SignerFlags
	reason string
	yes    bool
	out    string
	hours  int64

	dismissed           []string // INDEX=REASON
	corroborated, wrong []uint
	members             []string
	refuse              bool

	signer *access.Signer // of the orders so far: a passphrase is asked for once
}

// verb is what a command that writes about an incident is called.
type verb struct {
	act         act.Verb
	short, long string
}

// actCommand returns a command that writes about one incident.
func (a *app) actCommand(o *access.Where, options *actOptions, is verb) *cobra.Command {
	name := string(is.act)
	cmd := &cobra.Command{
		Use: name + " INCIDENT", Short: is.short, Long: is.long, Args: cobra.ExactArgs(1),
		Example: "  arl incident " + name + " 17 --reason 'checked with the customer' --key ann.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.act(cmd.Context(), o, args[0], is.act, options)
		},
	}
	flags := cmd.Flags()
	options.Register(flags)
	flags.BoolVar(&options.yes, "yes", false, "do not ask for confirmation")
	flags.StringVar(&options.out, "out", "", "write the receipt, and all that is needed to verify its signer, to FILE")
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
	var options actOptions
	cmd := a.actCommand(o, &options, verb{act.Escalate, "Propose a plan to the approvers",
		"Propose the current plan to the approvers. An earlier proposal becomes void, and so do the answers to it."})
	return options.leavesOut(options.needsReason(cmd))
}

func (a *app) incidentAuthorizeCommand(o *access.Where) *cobra.Command {
	return a.carryOutCommand(o, verb{act.Authorize, "Authorize a plan that a quorum approved", "Authorize the proposal that a quorum of approvers approved."})
}

func (a *app) incidentAmendCommand(o *access.Where) *cobra.Command {
	return a.carryOutCommand(o, verb{act.Amend, "Extend a plan in force by an approved amend", "Extend the plan in force by the open proposal that a quorum of approvers approved."})
}

// carryOutCommand returns a command that carries out the proposal of an incident.
func (a *app) carryOutCommand(o *access.Where, is verb) *cobra.Command {
	var options actOptions
	is.long = terminal.WrapText(is.long+" The coordinator does so by itself. Use this command while the coordinator does not run. Without a quorum the exit code is 8.", terminal.WidthHelp)
	return options.needsReason(a.actCommand(o, &options, is))
}

func (a *app) incidentDenyCommand(o *access.Where) *cobra.Command {
	var options actOptions
	cmd := a.actCommand(o, &options, verb{act.Deny, "Dismiss incidents: nothing is undone",
		"Dismiss incidents, one after the other: nothing is undone, and their fences are lifted. Every signal gets a\n" +
			"disposition, inconclusive by default. A dismissed signal costs its issuer quota. A signal that the approver\n" +
			"corroborates by its own word gives some quota back."})
	cmd.Use, cmd.Args = cmd.Name()+" INCIDENT…", cobra.MinimumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, which []string) (refused error) {
		if len(which) > 1 && (options.out != "" || len(options.corroborated)+len(options.wrong) > 0) {
			return exit.Usagef("--corroborated, --dismiss and --out are of one incident: deny it by a command of its own")
		}
		for _, incident := range which {
			err := a.act(cmd.Context(), o, incident, act.Deny, &options)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "incident "+incident+" ") { // it does not name the incident itself
					err = fmt.Errorf("incident %s: %w", incident, err)
				}
				refused = errors.Join(refused, err)
			}
			if code := exit.Code(err); code != exit.OK && code != exit.NotFound && code != exit.Conflict { // it is not of the incident
				break
			}
		}
		return refused
	}
	cmd.Flags().UintSliceVar(&options.corroborated, "corroborated", nil, "indexes of signals that the approver found true")
	cmd.Flags().UintSliceVar(&options.wrong, "dismiss", nil, "indexes of signals that the approver found false")
	return options.needsReason(cmd)
}

func (a *app) incidentOverrideCommand(o *access.Where) *cobra.Command {
	var options actOptions
	return options.needsReason(a.actCommand(o, &options, verb{act.Override, "Stop a plan in force",
		"Stop a plan in force: members without an outcome are withheld. One operator can stop a plan, or as many\n" +
			"approvers as the policy asks for."}))
}

func (a *app) incidentReleaseCommand(o *access.Where) *cobra.Command {
	var options actOptions
	cmd := a.actCommand(o, &options, verb{act.Release, "Lift the fence around members that have an outcome",
		"Lift the fence around members that have an outcome, so that new executions may depend on them again. The signer\n" +
			"must be an approver who does not own the members."})
	cmd.Flags().StringSliceVar(&options.members, "member", nil, "execution to release, issuer#id (required)")
	_ = cmd.MarkFlagRequired("member") // the flag exists
	cmd.Example = "  arl incident release 17 --member planner#step-7 --reason 'looked at' --key ann.key"
	return options.needsReason(cmd)
}

func (a *app) incidentRecordCommand(o *access.Where) *cobra.Command {
	var options actOptions
	cmd := a.actCommand(o, &options, verb{act.Record, "Close an incident with its recovery record",
		"Close an incident with a recovery record, which counts the outcomes. Members whose agents reported nothing in\n" +
			"time become unknown; the command writes this first. The coordinator closes incidents by itself. Approvers may\n" +
			"close an incident after the deadline if the coordinator is silent. The exit code is 11 if not everything was\n" +
			"undone."})
	cmd.Example = "  arl incident record 17 --key ann.key"
	return cmd
}

func (a *app) incidentApproveCommand(o *access.Where) *cobra.Command {
	var options actOptions
	cmd := a.actCommand(o, &options, verb{act.Approve, "Approve or refuse the proposed plan",
		"Approve exactly the plan of the proposal in force, or with --refuse refuse it. The command computes the plan\n" +
			"from the log's entries. It signs nothing if the rollback set differs from the set of the proposal (exit code 5)."})
	cmd.Flags().BoolVar(&options.refuse, "refuse", false, "refuse it")
	cmd.Flags().Int64Var(&options.hours, "hours", act.DefaultHours, "time for which the answer is valid")
	return options.needsReason(cmd)
}

// order returns what the flags of a verb ask for.
func (o *actOptions) order(is act.Verb, incident uint64) (*act.Order, error) {
	order := &act.Order{Verb: is, Incident: incident, Reason: o.reason, Hours: o.hours, Corroborated: incidents.Indexes(o.corroborated), False: incidents.Indexes(o.wrong)}
	if o.refuse {
		order.Verb = act.Refuse
	}
	for _, member := range o.members {
		order.Members = append(order.Members, entry.Ref(member))
	}
	var err error
	order.Dismissed, err = incidents.Dismissed(o.dismissed)
	return order, err
}

// act drafts an order about an incident, shows what it does, asks, signs, and registers
// it.
func (a *app) act(ctx context.Context, o *access.Where, incident string, is act.Verb, options *actOptions) error {
	return a.withIncident(ctx, o, incident, func(c *access.Connection, f *access.Fold, id uint64) error {
		order, err := options.order(is, id)
		if err != nil {
			return err
		}
		signedBy := func() (_ *access.Signer, err error) {
			if options.signer == nil {
				options.signer, err = a.machine().Signer(ctx, c, options.SignerFlags, node.Operator)
			}
			return options.signer, err
		}
		var by entry.Principal
		if len(order.Corroborated) > 0 {
			signer, err := signedBy()
			if err != nil {
				return err
			}
			by = signer.Principal
		}
		log := act.Log{Origin: c.Root.Origin, State: f.State, Now: f.Now}
		draft, err := log.Prepare(order, by)
		if err != nil {
			return err
		}
		if err := a.showDraft(f, draft); err != nil {
			return err
		}
		signer, err := signedBy()
		if err != nil {
			return err
		}
		entries, err := log.Seal(draft.Bodies, act.Signer{Principal: signer.Principal, Sign: signer.Sign})
		if err != nil {
			return err
		}
		if follows := draft.Follows(signer.Principal); follows != "" {
			fmt.Fprintln(a.Err, follows)
		}
		if err := a.Confirm(fmt.Sprintf("Sign this as %s?", signer.Principal), options.yes); err != nil {
			return err
		}
		if err := a.submit(ctx, c, entries, options.out); err != nil {
			return err
		}
		return incomplete(draft.Ends())
	})
}

// showDraft shows, on stderr, what is to be signed: the plan or the incident, and what
// the entries do.
func (a *app) showDraft(f *access.Fold, d *act.Draft) error {
	people := a.forPeople(a.Err)
	var err error
	if d.Plan != nil {
		err = people.printPlan(f, d.Incident, d.Plan)
	} else {
		err = people.PrintObject(nil, incidentFields(d.Incident)...)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Err)
	for _, silent := range d.Silent() {
		fmt.Fprintf(a.Err, "%s is unknown: its agent reported nothing in time\n", silent)
	}
	_, err = fmt.Fprintln(a.Err, d.Consequence())
	return err
}
