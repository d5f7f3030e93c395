// Package failures answers about single failures: which one it is, and what to do about it. It also
// reads the files of tools by which failures are imported.
package failures

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/pflag"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/ask"
)

// inputMax is the size in bytes of a message, a policy file or a tools file.
const inputMax = 1 << 20

// Decide are the flags of arl decide.
type Decide struct {
	access.Target
	Policy  string // file with the rules; empty: those in force in the ledger
	Explain bool
}

// Register adds the flags.
func (o *Decide) Register(flags *pflag.FlagSet) {
	o.Target.Register(flags)
	flags.StringVar(&o.Policy, "policy", "", "policy file with the rules, instead of the policy in force in the ledger")
	flags.BoolVar(&o.Explain, "explain", false, "show the reasoning, too")
}

// Run answers the question in a file, or on standard input for "-".
func (o *Decide) Run(ctx context.Context, a *terminal.Terminal, m *access.Machine, file string) error {
	text, err := a.ReadInput(file, api.MaxQuestion)
	if err != nil {
		return err
	}
	q, err := ask.Decode(text)
	if err != nil {
		return exit.Usagef("%s: %w", file, err)
	}
	q.Explain = q.Explain || o.Explain
	known, err := m.Knows(&o.Target)
	switch {
	case err != nil:
		return err
	case o.Policy != "" && o.Target != (access.Target{}):
		return exit.Usagef("--policy: the file decides, and no ledger is asked: leave out --url and the other flags of a ledger, or --policy")
	case o.Policy == "" && known:
		return m.WithConnection(ctx, &o.Target, func(c *access.Connection) error { return o.askServer(ctx, a, c, q) })
	}
	rules := recovery.Default()
	if o.Policy == "" {
		fmt.Fprintln(a.Err, "No ledger is known on this machine: the built-in rules decide.")
	} else if rules, err = loadRules(a, o.Policy); err != nil {
		return err
	}
	return show(a, q.Decide(rules))
}

// loadRules reads the rules of a policy file.
func loadRules(a *terminal.Terminal, file string) (*recovery.Policy, error) {
	document, err := a.ReadGiven(file, inputMax)
	if err != nil {
		return nil, err
	}
	p, err := recovery.Load(file, document)
	return p, exit.With(exit.Config, err)
}

// askServer has the policy in force decide. The ledger's answer says which policy that is.
func (o *Decide) askServer(ctx context.Context, a *terminal.Terminal, c *access.Connection, q *ask.Question) error {
	body, err := json.Marshal(q, json.Deterministic(true))
	if err != nil {
		return err
	}
	decided, err := c.Client.Decide(ctx, body)
	if err != nil {
		return err
	}
	var d ask.Decision
	if err := json.Unmarshal(decided.Decision, &d); err != nil {
		return fmt.Errorf("the ledger's decision is none: %w", err)
	}
	fmt.Fprintf(a.Err, "The policy of entry %d decides.\n", decided.Rules.Policy.Index)
	return show(a, &d)
}

// show prints a decision.
func show(a *terminal.Terminal, d *ask.Decision) error {
	action := d.Action
	action.WaitMS, action.Reason = 0, ""
	fields := []terminal.Field{{"failure", d.Failure.String()}, {"action", strings.TrimSuffix(action.String(), ": ")}}
	if d.Action.WaitMS > 0 {
		fields = append(fields, terminal.Field{"wait", fmt.Sprintf("%d ms", d.Action.WaitMS)})
	}
	fields = append(fields, terminal.Field{"rule", d.Rule.String()}, terminal.Field{"reason", string(d.Action.Reason)})
	if d.Remediation != "" {
		fields = append(fields, terminal.Field{"remediation", d.Remediation})
	}
	if err := a.PrintObject(d, fields...); err != nil || a.JSON() || len(d.Reasoning) == 0 {
		return err
	}
	if err := a.PrintText("\n"); err != nil {
		return err
	}
	l := a.NewList("STAGE", "NAME", "FINDING")
	for _, s := range d.Reasoning {
		if err := l.Add(s, s.Stage, s.Name, s.Finding); err != nil {
			return err
		}
	}
	return l.Close()
}
