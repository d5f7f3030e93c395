package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

func (a *app) agentCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Enrol, rotate, revoke and list the keys of principals",
		Example: "  arl agent list",
	}
	t.register(cmd.PersistentFlags())
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
	cmd.Flags().StringVar(&o.principal, "principal", "", "whose key it is (mandatory)")
	cmd.Flags().StringVar(&o.key, "key", "", "key file; only its public half is sent")
	cmd.Flags().StringVar(&o.publicKey, "public-key", "", "public key in base64, as arl key show prints it")
	cmd.Flags().StringVar(&o.signer, "signer", "", "key file to sign with (default: the profile's operator, or authority for other roles)")
	cmd.MarkFlagsMutuallyExclusive("key", "public-key")
	cmd.MarkFlagsOneRequired("key", "public-key")
	_ = cmd.MarkFlagRequired("principal") // the flag exists
}

func (a *app) agentEnrolCommand(t *target) *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "enrol",
		Short: "Let a key speak for a principal",
		Long: "Let a key speak for a principal. Plain agents are enrolled by the profile's operator, every other role is\n" +
			"granted by its authority. The pinned root of the profile then carries the tree head that has the enrolment: arl root\n" +
			"show prints it for the agent's machine, where arl agent listen begins with that head.",
		Example: "  arl agent enrol --principal planner --key planner.key --domain my-team",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.agentEnrol(cmd.Context(), c, &o) })
		},
	}
	o.registerKey(cmd)
	cmd.Flags().StringSliceVar(&o.roles, "roles", []string{string(entry.RoleAgent)}, "roles of the key: "+roleNames())
	cmd.Flags().StringVar(&o.domain, "domain", "", "who answers for the principal, such as a team (mandatory)")
	cmd.Flags().StringVar(&o.span, "span", string(entry.SpanWorkflow), "what its checkpoints reach over: workflow|agent; never changes")
	cmd.Flags().StringSliceVar(&o.capabilities, "capabilities", nil, "what it can do, in words of its own")
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

func (a *app) agentEnrol(ctx context.Context, c *connection, o *agentOptions) error {
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

func (a *app) agentRotateCommand(t *target) *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace all keys of a principal by a new one",
		Long: "Replace all keys of a principal by a new one. Roles, domain and span stay what they are.\n\n" +
			"With --overlap the old keys count beside the new one for that long: the new key is enrolled, and this command stays\n" +
			"until it has revoked the old ones. The log knows no date on which a key ends. If the command is ended before, the\n" +
			"old keys go on counting, and it says how to revoke them.",
		Example: "  arl agent rotate --principal planner --key new.key --overlap 1h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.agentRotate(cmd.Context(), c, &o) })
		},
	}
	o.registerKey(cmd)
	cmd.Flags().DurationVar(&o.overlap, "overlap", 0, "for how long the old keys count beside the new one")
	return cmd
}

func (a *app) agentRotate(ctx context.Context, c *connection, o *agentOptions) error {
	public, err := a.publicKey(o)
	if err != nil {
		return err
	}
	known, err := c.agent(ctx, o.principal)
	if err != nil {
		return err
	}
	body := &entry.Agent{Principal: known.Principal, Op: entry.Rotate, Key: public, Roles: known.Roles, Domain: known.Domain,
		Span: known.Span, Capabilities: known.Capabilities}
	switch {
	case len(body.Roles) == 0:
		return withExit(exitConflict, fmt.Errorf("%s has no key that counts: use arl agent enrol", known.Principal))
	case o.overlap < 0:
		return usage("--overlap %s: want 0s or more", o.overlap)
	case o.overlap > 0:
		return a.rotateSlowly(ctx, c, body, o)
	}
	return a.submitAgent(ctx, c, body, o)
}

func (a *app) agentRevokeCommand(t *target) *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "End a key",
		Long: "End a key: it can sign nothing more and is never enrolled again. What it signed stays; with\n" +
			"--compromised-since, readers are warned of what it signed from that index on, which is listed before the command asks.",
		Example: "  arl agent revoke --principal planner --reason 'laptop stolen' --compromised-since 1200",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.agentRevoke(cmd.Context(), c, &o) })
		},
	}
	cmd.Flags().StringVar(&o.principal, "principal", "", "whose key it is (mandatory)")
	cmd.Flags().StringVar(&o.keyID, "keyid", "", "fingerprint of the key (default: the only one that counts)")
	cmd.Flags().StringVar(&o.signer, "signer", "", "key file to sign with (default: the profile's operator, or authority for other roles)")
	cmd.Flags().Var(&o.compromised, "compromised-since", "index from which on the key is not to be believed")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	_ = cmd.MarkFlagRequired("principal") // the flag exists
	needReason(cmd, &o.reason)
	return cmd
}

func (a *app) agentRevoke(ctx context.Context, c *connection, o *agentOptions) error {
	known, err := c.agent(ctx, o.principal)
	if err != nil {
		return err
	}
	key, err := keyToRevoke(known, o.keyID)
	if err != nil {
		return err
	}
	body := &entry.Agent{Principal: known.Principal, Op: entry.Revoke, Key: key.Key, Roles: key.Roles, Domain: known.Domain,
		Span: known.Span, Capabilities: known.Capabilities}
	if since := o.compromised.value; since != nil {
		if uint64(*since) < key.Enrolled {
			return usage("--compromised-since %d: the key was enrolled at entry %d and signed nothing before: pass that or later", *since, key.Enrolled)
		}
		body.CompromisedSince = &entry.Compromised{Index: uint64(*since)}
	}
	fmt.Fprintf(a.err, "revoke %s of %s: roles %s, enrolled at entry %d\n", key.Key.KeyID(), known.Principal, joinRoles(key.Roles), key.Enrolled)
	if err := a.listSuspects(ctx, c, known.Principal, key.Key.KeyID(), o.compromised.value); err != nil {
		return err
	}
	if err := a.confirm("End this key?", o.yes); err != nil {
		return err
	}
	return a.submitAgent(ctx, c, body, o)
}

// keyToRevoke finds the key that is meant among those that count.
func keyToRevoke(known *verify.AgentInfo, keyID string) (*verify.KeyInfo, error) {
	var counting []*verify.KeyInfo
	for i := range known.Keys {
		if known.Keys[i].Revoked == 0 && (keyID == "" || known.Keys[i].Key.KeyID() == keyID) {
			counting = append(counting, &known.Keys[i])
		}
	}
	switch {
	case len(counting) == 0:
		if keyID != "" {
			keyID += " "
		}
		return nil, withExit(exitNotFound, fmt.Errorf("%s has no key %sthat counts (arl agent list shows those that it has)", known.Principal, keyID))
	case len(counting) > 1:
		return nil, usage("%s has %d keys that count: pass --keyid (arl agent list shows them)", known.Principal, len(counting))
	}
	return counting[0], nil
}

// publicKey returns the key that is to be enrolled.
func (a *app) publicKey(o *agentOptions) (entry.PublicKey, error) {
	if o.publicKey == "" {
		signer, err := a.loadKey(o.key)
		if err != nil {
			return entry.PublicKey{}, err
		}
		return signer.Public(), nil
	}
	der, err := base64.StdEncoding.Strict().DecodeString(o.publicKey)
	if err != nil {
		return entry.PublicKey{}, usage("--public-key: %v", err)
	}
	return entry.ParsePublicKey(der)
}

// submitAgent signs an agent entry with the key that may: whoever may speak
// about plain agents, or the authority for everyone else.
func (a *app) submitAgent(ctx context.Context, c *connection, body *entry.Agent, o *agentOptions) error {
	signer, err := a.agentSigner(ctx, c, body, o)
	if err != nil {
		return err
	}
	return a.submitAgentBy(ctx, c, signer, body, o.reason)
}

// agentSigner returns who may say something about a key with the roles of a body.
func (a *app) agentSigner(ctx context.Context, c *connection, body *entry.Agent, o *agentOptions) (*signer, error) {
	principal := principalOperator
	if !slices.Equal(body.Roles, []entry.Role{entry.RoleAgent}) {
		principal = principalAuthority
	}
	return a.signer(ctx, c, signerFlags{key: o.signer}, principal)
}

func (a *app) submitAgentBy(ctx context.Context, c *connection, signer *signer, body *entry.Agent, reason string) error {
	body.Header = newHeader(signer.principal, c.root.Origin)
	return a.submitWithReason(ctx, c, signer, body, reason)
}

func (a *app) agentListCommand(t *target) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List principals, their roles and keys",
		Long: "List every principal that was ever enrolled, as it follows from the verified policy and agent entries. Of a key that was\n" +
			"compromised, it says since which entry, and how many the server has that it signed from there on (arl entry list marks them).",
		Example: "  arl agent list --domain my-team",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.agentList(cmd.Context(), c, domain) })
		},
	}
	cmd.Flags().StringVar(&domain, "domain", "", "only principals of this domain")
	return cmd
}

func (a *app) agentList(ctx context.Context, c *connection, domain string) error {
	chain, err := c.chain(ctx)
	if err != nil {
		return err
	}
	l := a.newList("PRINCIPAL", "ROLES", "DOMAIN", "SPAN", "KEY", "SINCE", "STATE")
	for _, info := range chain.Agents() {
		if domain != "" && info.Domain != domain {
			continue
		}
		agent, err := c.listed(ctx, &info)
		if err != nil {
			return err
		}
		if a.settings.output == outputJSON {
			if err := a.printJSON(agent); err != nil {
				return err
			}
			continue
		}
		for _, key := range agent.Keys {
			if err := l.add(nil, string(agent.Principal), joinRoles(key.Roles), agent.Domain, string(agent.Span), key.KeyID,
				decimal(key.Enrolled), agent.state(&key)); err != nil {
				return err
			}
		}
	}
	return l.close()
}

func joinRoles(roles []entry.Role) string {
	var names []string
	for _, role := range roles {
		names = append(names, string(role))
	}
	return strings.Join(names, ",")
}
