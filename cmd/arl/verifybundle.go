package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"recoveryledger/api/client/agent"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// bundleFlags are the flags for an authorization bundle: the state of its agent, and the time of
// the check.
type bundleFlags struct {
	accepted string
	at       string
}

// verifyBundle checks the authorization bundle in a file. It explains what the bundle tells its
// agent to do, and by which rules.
func (a *app) verifyBundle(root verify.Root, flags bundleFlags, name string, data []byte) error {
	b, err := bundle.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	accepted := bundle.Accepted{Root: root}
	if flags.accepted != "" {
		if accepted, err = a.readAccepted(flags.accepted); err != nil {
			return err
		}
		if !accepted.Root.SameLedger(root) {
			return exit.With(exit.Verification, fmt.Errorf("%s: from another ledger than the pinned one", flags.accepted))
		}
		accepted.Root = root
	}
	now := time.Now()
	if flags.at != "" {
		if now, err = time.Parse(time.RFC3339, flags.at); err != nil {
			return exit.Usagef("--at %s: want a time such as 2026-11-21T09:30:00Z", flags.at)
		}
	}
	v, err := b.Check(accepted, now.UnixMilli())
	if refused, ok := errors.AsType[*bundle.RuleError](err); ok && len(refused.Heads) > 0 {
		if _, convicts := exit.Contradicted(err); !convicts {
			err = exit.Remedied("ask another node of the ledger for the bundle; if its proof fails, too, keep this bundle and the accepted state: each has a signed tree head", err)
		}
	}
	if printErr := a.printBundle(b, &v, err); printErr != nil {
		return printErr
	}
	if err == nil {
		err = v.CheckMembers()
	}
	return err
}

// readAccepted reads the accepted state of an agent: plain JSON, or the document in its state
// directory.
func (a *app) readAccepted(path string) (accepted bundle.Accepted, err error) {
	text, err := a.ReadInput(path, agent.MaxDocument)
	if err != nil {
		return bundle.Accepted{}, err
	}
	if bytes.HasPrefix(text, []byte("{")) {
		accepted, err = bundle.DecodeAccepted(bytes.TrimSuffix(text, []byte("\n")))
	} else {
		accepted, _, err = agent.DecodeAccepted(text)
	}
	if damage, ok := errors.AsType[*agent.DamageError](err); ok { // the file may be a copy: no words about an agent's own state
		return bundle.Accepted{}, exit.With(exit.Verification, fmt.Errorf("%s: the document is damaged: %s", path, damage.Cause))
	}
	if err != nil {
		return bundle.Accepted{}, fmt.Errorf("%s: %w", path, err)
	}
	return accepted, nil
}

// verifiedBundle is a [bundle.Verdict] in the form of the output.
type verifiedBundle struct {
	Verdict    string          `json:"verdict"` // verified, or REFUSED: all of it, or some of its members
	Agent      entry.Principal `json:"agent"`
	Incident   uint64          `json:"incident,omitzero"`
	Decision   *entry.LogRef   `json:"decision,omitempty"`
	Act        entry.Act       `json:"act,omitempty"`
	Epoch      int64           `json:"epoch"`
	ExpiresAt  int64           `json:"expires_at,omitzero"`
	DeadlineAt int64           `json:"deadline_at,omitzero"`
	Confirmed  bool            `json:"confirmed"`
	Commands   []bundleCommand `json:"commands"`
	Checked    []bundle.Passed `json:"checked"`
	NotChecked []string        `json:"not_checked"`
	Warnings   []string        `json:"warnings"`
	Refused    string          `json:"refused,omitempty"` // why the whole bundle is refused
}

type bundleCommand struct {
	Exec       entry.Ref    `json:"exec"`
	Method     entry.Method `json:"method"`
	Checkpoint entry.Ref    `json:"checkpoint,omitempty"`
	Digest     entry.Digest `json:"digest,omitempty"`
	Chain      []string     `json:"chain"`
	Standing   []entry.Ref  `json:"standing"`
	Released   bool         `json:"released"`
	Waits      []entry.Ref  `json:"waits"`
	Result     entry.Result `json:"result,omitempty"`
	Refused    string       `json:"refused,omitempty"`
}

func (a *app) printBundle(b *bundle.Bundle, v *bundle.Verdict, refused error) error {
	out := verifiedBundle{Agent: b.Agent, Incident: v.Incident, Act: v.Act, Epoch: v.Epoch, ExpiresAt: v.ExpiresAt, DeadlineAt: v.DeadlineAt,
		Confirmed: v.Confirmed, Commands: []bundleCommand{}, Checked: append([]bundle.Passed{}, v.Checked...),
		NotChecked: append([]string{}, v.NotChecked...), Warnings: append([]string{}, v.Warnings...)}
	if v.Decision != (entry.LogRef{}) {
		out.Decision = &v.Decision
	}
	out.Verdict = v.Summary(refused)
	if refused != nil {
		out.Refused = refused.Error()
	}
	for i := range v.Commands {
		out.Commands = append(out.Commands, showCommand(&v.Commands[i]))
	}
	if a.JSON() {
		return a.PrintJSON(out)
	}
	return a.PrintProse(out.text(v))
}

func showCommand(c *bundle.Command) bundleCommand {
	shown := bundleCommand{Exec: c.Exec, Method: c.Method, Checkpoint: c.Checkpoint, Digest: c.Digest, Chain: []string{},
		Standing: append([]entry.Ref{}, c.Standing...), Released: c.Released, Waits: append([]entry.Ref{}, c.Waits...), Result: c.Result}
	for _, s := range c.Chain {
		shown.Chain = append(shown.Chain, s.String())
	}
	if c.Refused != nil {
		shown.Refused = c.Refused.Error()
	}
	return shown
}

func (out *verifiedBundle) text(v *bundle.Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: bundle for %s", out.Verdict, out.Agent)
	if out.Decision != nil {
		fmt.Fprintf(&b, ": %s of incident %d at entry %d, epoch %d, until %s", out.Act, out.Incident, out.Decision.Index, out.Epoch, instant(out.ExpiresAt))
	}
	b.WriteString("\n")
	for i := range v.Commands {
		fmt.Fprintf(&b, "  %s\n", &v.Commands[i])
	}
	b.WriteString("\nchecked\n")
	for _, p := range v.Checked {
		fmt.Fprintf(&b, "  %s\n", p)
	}
	if out.Refused == "" {
		b.WriteString("\nnot checked\n")
		for _, text := range out.NotChecked {
			fmt.Fprintf(&b, "  - %s\n", text)
		}
	}
	for _, text := range out.Warnings {
		fmt.Fprintf(&b, "\nWARNING: %s\n", text)
	}
	return b.String()
}
