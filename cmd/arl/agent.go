package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

func (a *app) agentCommand() *cobra.Command {
	var t access.Target
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Enrol, rotate, revoke and list the keys of principals",
		Example: "  arl agent list",
	}
	t.Register(cmd.PersistentFlags())
	cmd.AddCommand(a.agentEnrolCommand(&t), a.agentRotateCommand(&t), a.agentRevokeCommand(&t), a.agentListCommand(&t), a.agentHistoryCommand(&t), a.agentListenCommand(&t))
	return cmd
}

// agentOptions are the flags of the verbs that write agent entries.
type agentOptions struct {
	principal    string
	key          string // file
	publicKey    string // base64
	keyID        string
	roles        []string
	domain       string
	span         string
	capabilities []string
	signer       string
	reason       string
	compromised  optional
	overlap      time.Duration
	yes          bool
}

func (o *agentOptions) registerKey(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.principal, "principal", "", "principal that the key belongs to (required)")
	cmd.Flags().StringVar(&o.key, "key", "", "key file; only the public half is sent")
	cmd.Flags().StringVar(&o.publicKey, "public-key", "", "public key in base64, as arl key show prints it")
	cmd.Flags().StringVar(&o.signer, "signer", "", "key file to sign with (default: the profile's operator, or authority for other roles)")
	cmd.MarkFlagsMutuallyExclusive("key", "public-key")
	cmd.MarkFlagsOneRequired("key", "public-key")
	_ = cmd.MarkFlagRequired("principal") // the flag exists
}

func (a *app) agentEnrolCommand(t *access.Target) *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "enrol",
		Short: "Enrol a key for a principal",
		Long: "Enrol a key for a principal. The profile's operator enrols plain agents, and the profile's authority grants\n" +
			"every other role. The command writes the tree head that covers the enrolment into the profile's pinned root. arl\n" +
			"root show prints that root for the agent's machine, and arl agent listen begins with its head.",
		Example: "  arl agent enrol --principal planner --key planner.key --domain my-team",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.agentEnrol(cmd.Context(), c, &o) })
		},
	}
	o.registerKey(cmd)
	cmd.Flags().StringSliceVar(&o.roles, "roles", []string{string(entry.RoleAgent)}, "roles of the key: "+roleNames())
	cmd.Flags().StringVar(&o.domain, "domain", "", "domain that answers for the principal, such as a team (required)")
	cmd.Flags().StringVar(&o.span, "span", string(entry.SpanWorkflow), "reach of the checkpoints: workflow|agent; never changes")
	cmd.Flags().StringSliceVar(&o.capabilities, "capabilities", nil, "capabilities of the principal, in words of your choice")
	_ = cmd.MarkFlagRequired("domain") // the flag exists
	return cmd
}

func roleNames() string {
	var names []string
	for _, role := range entry.Roles() {
		names = append(names, string(role))
	}
	return strings.Join(names, ", ")
}

func (a *app) agentEnrol(ctx context.Context, c *access.Connection, o *agentOptions) error {
	public, err := a.publicKey(o)
	if err != nil {
		return err
	}
	body := &entry.Agent{Principal: entry.Principal(o.principal), Op: entry.Enrol, Key: public, Domain: o.domain,
		Span: entry.Span(o.span), Capabilities: o.capabilities}
	for _, role := range o.roles {
		body.Roles = append(body.Roles, entry.Role(role))
	}
	if err := a.submitAgent(ctx, c, body, o); err != nil {
		return err
	}
	return a.noteSeen(c)
}

func (a *app) agentRotateCommand(t *access.Target) *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace all keys of a principal with a new key",
		Long: "Replace all keys of a principal with a new key. Roles, domain and span stay the same.\n\n" +
			"With --overlap the old keys stay valid for that time: the command enrols the new key, waits, and then revokes\n" +
			"the old keys. The log has no expiry dates for keys. If the command is ended early, the old keys stay valid, and\n" +
			"the command prints how to revoke them.",
		Example: "  arl agent rotate --principal planner --key new.key --overlap 1h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.agentRotate(cmd.Context(), c, &o) })
		},
	}
	o.registerKey(cmd)
	cmd.Flags().DurationVar(&o.overlap, "overlap", 0, "time for which the old keys stay valid beside the new key")
	return cmd
}

func (a *app) agentRotate(ctx context.Context, c *access.Connection, o *agentOptions) error {
	public, err := a.publicKey(o)
	if err != nil {
		return err
	}
	known, err := c.Agent(ctx, o.principal)
	if err != nil {
		return err
	}
	body, err := known.Rotation(public)
	switch {
	case err != nil:
		return exit.With(exit.Conflict, exit.Remedied("use arl agent enrol", err))
	case o.overlap < 0:
		return exit.Usagef("--overlap %s: want 0s or more", o.overlap)
	case o.overlap > 0:
		return a.rotateSlowly(ctx, c, known, body, o)
	}
	return a.submitAgent(ctx, c, body, o)
}

func (a *app) agentRevokeCommand(t *access.Target) *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "Revoke a key",
		Long: "Revoke a key. The key can sign nothing more and is never enrolled again. Entries that it signed stay. With\n" +
			"--compromised-since, readers are warned of the entries that the key signed from that index on. The command lists\n" +
			"these entries before it asks for confirmation.",
		Example: "  arl agent revoke --principal planner --reason 'laptop stolen' --compromised-since 1200",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.agentRevoke(cmd.Context(), c, &o) })
		},
	}
	cmd.Flags().StringVar(&o.principal, "principal", "", "principal that the key belongs to (required)")
	cmd.Flags().StringVar(&o.keyID, "keyid", "", "fingerprint of the key (default: the only valid key)")
	cmd.Flags().StringVar(&o.signer, "signer", "", "key file to sign with (default: the profile's operator, or authority for other roles)")
	cmd.Flags().Var(&o.compromised, "compromised-since", "index from which on the key is not trusted")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask for confirmation")
	_ = cmd.MarkFlagRequired("principal") // the flag exists
	needReason(cmd, &o.reason)
	return cmd
}

func (a *app) agentRevoke(ctx context.Context, c *access.Connection, o *agentOptions) error {
	known, err := c.Agent(ctx, o.principal)
	if err != nil {
		return err
	}
	key, err := known.ValidKey(o.keyID)
	if err != nil {
		return err
	}
	body, err := known.Revocation(key, o.compromised.index())
	if err != nil {
		return exit.Usagef("--compromised-since %d: %w", *o.compromised.value, err)
	}
	fmt.Fprintf(a.Err, "revoke %s of %s: roles %s, enrolled at entry %d\n", key.Key.KeyID(), known.Principal, words.JoinRoles(key.Roles), key.Enrolled)
	if err := a.listSuspects(ctx, c, known.Principal, key.Key.KeyID(), o.compromised.value); err != nil {
		return err
	}
	if err := a.Confirm("Revoke this key?", o.yes); err != nil {
		return err
	}
	return a.submitAgent(ctx, c, body, o)
}

// publicKey returns the public key to enrol.
func (a *app) publicKey(o *agentOptions) (entry.PublicKey, error) {
	if o.publicKey == "" {
		signer, err := a.machine().LoadKey(o.key)
		if err != nil {
			return entry.PublicKey{}, err
		}
		return signer.Public(), nil
	}
	der, err := base64.StdEncoding.Strict().DecodeString(o.publicKey)
	if err != nil {
		return entry.PublicKey{}, exit.Usagef("--public-key: %v", err)
	}
	return entry.ParsePublicKey(der)
}

// submitAgent signs an agent entry, and submits it. The profile's operator signs entries about
// plain agents. The authority signs all other agent entries.
func (a *app) submitAgent(ctx context.Context, c *access.Connection, body *entry.Agent, o *agentOptions) error {
	signer, err := a.agentSigner(ctx, c, body, o)
	if err != nil {
		return err
	}
	return a.submitWithReason(ctx, c, signer, body, o.reason)
}

// agentSigner loads the key that may sign an agent entry with the roles of the body.
func (a *app) agentSigner(ctx context.Context, c *access.Connection, body *entry.Agent, o *agentOptions) (*access.Signer, error) {
	principal := node.Operator
	if verify.AuthorityOnly(body.Roles) {
		principal = node.Authority
	}
	return a.machine().Signer(ctx, c, access.SignerFlags{Key: o.signer}, principal)
}

func (a *app) agentListCommand(t *access.Target) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List principals, their roles and keys",
		Long: "List every principal that was ever enrolled, from the verified policy and agent entries. For a compromised key,\n" +
			"the list shows the entry from which on the key is not trusted, and how many entries of the server the key signed\n" +
			"from there on (arl entry list marks these entries). What the server counts of a principal comes last: its\n" +
			"signals that were corroborated and that were dismissed, its executions in plans, the outcomes that it corrected,\n" +
			"the signals that it may still send in this hour, and its newest entry.",
		Example: "  arl agent list --domain my-team",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.agentList(cmd.Context(), c, domain) })
		},
	}
	cmd.Flags().StringVar(&domain, "domain", "", "only principals of this domain")
	return cmd
}

func (a *app) agentList(ctx context.Context, c *access.Connection, domain string) error {
	chain, err := c.Chain(ctx)
	if err != nil {
		return err
	}
	counts, err := c.Client.AgentCounts(ctx, domain)
	if err != nil {
		return err
	}
	l := a.NewList("PRINCIPAL", "ROLES", "DOMAIN", "SPAN", "KEY", "SINCE", "STATE", "CORROBORATED", "DISMISSED", "IN PLANS", "CORRECTED", "SIGNALS LEFT", "NEWEST")
	for _, info := range chain.Agents() {
		if domain != "" && info.Domain != domain {
			continue
		}
		agent, err := c.Listed(ctx, &info)
		if err != nil {
			return err
		}
		n := counts[info.Principal]
		agent.Counts = &n
		if a.JSON() {
			if err := a.PrintJSON(agent); err != nil {
				return err
			}
			continue
		}
		for _, key := range agent.Keys {
			if err := l.Add(nil, string(agent.Principal), words.JoinRoles(key.Roles), agent.Domain, string(agent.Span), key.KeyID,
				decimal(key.Enrolled), words.KeyState(&key, agent.SignedSince[key.KeyID]), fmt.Sprint(n.Corroborated), fmt.Sprint(n.Dismissed), fmt.Sprint(n.Memberships), fmt.Sprint(n.Corrections), fmt.Sprint(n.SignalsLeft), decimal(n.Last)); err != nil {
				return err
			}
		}
	}
	return l.Close()
}
