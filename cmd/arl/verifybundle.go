package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api/client/agent"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// bundleFlags say whose eyes an authorization bundle is looked at with.
type bundleFlags struct {
	accepted string
	at       string
}

// asBundle returns what is in a file as the text of an authorization bundle,
// told by its members. White space between them is forgiven.
func asBundle(data []byte) (bundle []byte, is bool) {
	var members map[string]jsontext.Value
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) || json.Unmarshal(data, &members) != nil {
		return nil, false
	}
	_, inclusion := members["inclusion"]
	_, steps := members["steps"]
	value := jsontext.Value(bytes.TrimSpace(data))
	return value, inclusion && steps && value.Compact() == nil
}

// verifyBundle explains what the authorization bundle in a file tells its agent to
// do, and by which rules.
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
		if accepted.Root.Origin != root.Origin || accepted.Root.Genesis != root.Genesis {
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
	if printErr := a.printBundle(b, &v, err); printErr != nil {
		return printErr
	}
	if err == nil {
		err = refusedMembers(v.Commands)
	}
	return bundleError(err)
}

// readAccepted reads what an agent has accepted: JSON alone, or the document of its
// state.
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
	if damage, ok := errors.AsType[*agent.DamageError](err); ok { // of a copy, maybe: no word of what an agent does about its own
		return bundle.Accepted{}, exit.With(exit.Verification, fmt.Errorf("%s: the document is damaged: %s", path, damage.Cause))
	}
	if err != nil {
		return bundle.Accepted{}, fmt.Errorf("%s: %w", path, err)
	}
	return accepted, nil
}

// refusedMembers is the error of a bundle that holds, but not for every member.
// Where evidence is missing, another bundle may have it.
func refusedMembers(commands []bundle.Command) error {
	var first *bundle.Command
	count, then := 0, "the agent answers them `refused`, and undoes the others"
	for i := range commands {
		c := &commands[i]
		if c.Refused == nil {
			continue
		}
		if count++; first == nil {
			first = c
		}
		if errors.Is(c.Refused, bundle.ErrMissing) {
			then = "evidence is missing: fetch the bundle again, or elsewhere"
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d members refused, first %s: %w (%s)", count, len(commands), first.Exec, first.Refused, then)
}

// bundleError gives a broken rule its exit code, and keeps heads that nothing
// reconciles as evidence.
func bundleError(err error) error {
	rule, ok := errors.AsType[*bundle.RuleError](err)
	_, fork := errors.AsType[*verify.ForkError](err)
	switch {
	case !ok || fork: // which keeps its own evidence
		return err
	case len(rule.Heads) == 2:
		return exit.Contradicts("heads", verify.NewForkEvidence(rule.Cause.Error(), rule.Heads[0], rule.Heads[1]), err)
	}
	return exit.With(exit.Verification, err)
}

// verifiedBundle is a [bundle.Verdict] as it is printed.
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
	Refused    string          `json:"refused,omitempty"` // why all of it is
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
	out.Verdict = verdictVerified
	if refused != nil {
		out.Verdict, out.Refused = "REFUSED", refused.Error()
	}
	if count := countRefused(v.Commands); count > 0 {
		out.Verdict = fmt.Sprintf("%d OF %d MEMBERS REFUSED", count, len(v.Commands))
	}
	for i := range v.Commands {
		out.Commands = append(out.Commands, showCommand(&v.Commands[i]))
	}
	if a.JSON() {
		return a.PrintJSON(out)
	}
	return a.PrintProse(out.text(v))
}

func countRefused(commands []bundle.Command) (count int) {
	for i := range commands {
		if commands[i].Refused != nil {
			count++
		}
	}
	return count
}

func showCommand(c *bundle.Command) bundleCommand {
	shown := bundleCommand{Exec: c.Exec, Method: c.Method, Checkpoint: c.Checkpoint, Digest: c.Digest, Chain: []string{},
		Standing: append([]entry.Ref{}, c.Standing...), Released: c.Released, Waits: append([]entry.Ref{}, c.Waits...), Result: c.Result}
	for _, s := range c.Chain {
		shown.Chain = append(shown.Chain, fmt.Sprintf("%s: entry %d from %d", s.Rule, s.Exec, s.From))
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
	for i := range out.Commands {
		fmt.Fprintf(&b, "  %s\n", out.Commands[i].line())
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

// line says in words what a command is.
func (c *bundleCommand) line() string {
	text := fmt.Sprintf("%s: %s", c.Exec, c.Method)
	if c.Checkpoint != "" {
		text += " to " + string(c.Checkpoint)
	}
	switch {
	case c.Refused != "":
		return text + ", REFUSED: " + c.Refused
	case c.Result != "":
		text += ", has the outcome " + string(c.Result)
	case c.Released:
		text += ", released"
	default:
		text += ", waits for " + joinRefs(c.Waits)
	}
	if len(c.Standing) > 0 {
		text += "; what stands: " + joinRefs(c.Standing)
	}
	return text + " (" + strings.Join(c.Chain, ", ") + ")"
}
