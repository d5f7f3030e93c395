package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func (a *app) entryCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:     "entry",
		Short:   "Write and read entries",
		Example: "  arl entry list --newest",
	}
	t.register(cmd.PersistentFlags())
	cmd.AddCommand(a.entrySubmitCommand(&t), a.entryTemplateCommand(), a.entryGetCommand(&t), a.entryListCommand(&t), a.entryImportCommand(&t))
	return cmd
}

// submitOptions are the flags of arl entry submit.
type submitOptions struct {
	signerFlags
	kind, payload, out string
	force              bool // take words that the taxonomy does not have
}

func (a *app) entrySubmitCommand(t *target) *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "submit [FILE|-]",
		Short: "Submit signed envelopes, or sign a payload and submit it",
		Long: "Submit a DSSE envelope, or several, one a line: they are taken in order, and the first refusal ends it.\n" +
			"Submitting the same again is safe. With --kind and --payload, sign a payload first: v, jti, iss, aud and iat are\n" +
			"filled in where it has none.",
		Example: "  arl entry submit --kind execution --payload step.json --key agent.key --out receipt.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (o.payload != "") {
				return usage("pass either a file of envelopes, or --kind and --payload")
			}
			return a.withConnection(cmd.Context(), t, func(c *connection) error {
				if err := checkOut(o.out); err != nil {
					return err
				}
				if len(args) == 1 {
					return a.submitEnvelopes(cmd.Context(), c, args[0], o.out)
				}
				return a.submitPayload(cmd.Context(), c, &o)
			})
		},
	}
	cmd.Flags().StringVar(&o.kind, "kind", "", "kind of the payload (arl entry template shows one)")
	nameValue(cmd.Flags(), "kind", "KIND")
	cmd.Flags().StringVar(&o.payload, "payload", "", "file of the payload, - for standard input")
	o.register(cmd.Flags())
	cmd.Flags().StringVar(&o.out, "out", "", "file for the receipts, with those of the policies and keys that they count by")
	cmd.Flags().BoolVar(&o.force, "force", false, "sign a signal whose class or code is not in the taxonomy")
	cmd.MarkFlagsRequiredTogether("kind", "payload")
	return cmd
}

// inputMax is the size of a file of envelopes in bytes.
const inputMax = 1 << 30

func (a *app) submitEnvelopes(ctx context.Context, c *connection, file, out string) error {
	data, err := a.readInput(file, inputMax)
	if err != nil {
		return err
	}
	var entries []*entry.Entry
	values := jsontext.NewDecoder(bytes.NewReader(data))
	for number := 1; ; number++ {
		envelope, err := values.ReadValue()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return usage("%s: envelope %d: %w", file, number, err)
		}
		e, err := entry.Decode(envelope)
		if err != nil {
			return fmt.Errorf("%s: envelope %d: %w", file, number, err)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return usage("%s: no envelope in it", file)
	}
	return a.submit(ctx, c, entries, out)
}

func (a *app) submitPayload(ctx context.Context, c *connection, o *submitOptions) error {
	kind, err := parseKind(o.kind)
	if err != nil {
		return err
	}
	payload, err := a.readInput(o.payload, entry.MaxEnvelope)
	if err != nil {
		return err
	}
	signer, err := a.signer(ctx, c, o.signerFlags, principalOperator)
	if err != nil {
		return err
	}
	e, err := completePayload(kind, payload, newHeader(signer.principal, c.root.Origin))
	if err != nil {
		return err
	}
	if s, ok := e.Body.(*entry.Signal); ok {
		if err := checkTaxonomy(s.Class, s.Code, o.force); err != nil {
			return err
		}
	}
	if err := signer.Sign(e); err != nil {
		return err
	}
	return a.submit(ctx, c, []*entry.Entry{e}, o.out)
}

func (a *app) entryTemplateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "template KIND",
		Short: "Write a payload of a kind, to be filled in",
		Long: "Write an example of the payload of a kind. Replace its values, and submit it with arl entry submit --kind KIND\n" +
			"--payload FILE, which adds v, jti, iss, aud and iat. docs/kinds.md says what each member means.",
		Example:   "  arl entry template execution > step.json",
		Args:      cobra.ExactArgs(1),
		ValidArgs: texts(entry.Kinds()),
		RunE: func(_ *cobra.Command, args []string) error {
			kind, err := parseKind(args[0])
			if err != nil {
				return err
			}
			return a.printText(string(entry.Example(kind)))
		},
	}
}

func parseKind(text string) (entry.Kind, error) {
	var names []string
	for _, kind := range entry.Kinds() {
		if string(kind) == text {
			return kind, nil
		}
		names = append(names, string(kind))
	}
	return "", usage("kind %q: want one of %s", text, strings.Join(names, ", "))
}

// completePayload adds the members of the header that a payload does not have.
// What it has is signed as it is written.
func completePayload(kind entry.Kind, payload []byte, header entry.Header) (*entry.Entry, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, entry.Refuse(entry.Malformed, "payload", "not a JSON object: %v", err)
	}
	completed, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	var defaults map[string]jsontext.Value
	if err := json.Unmarshal(completed, &defaults); err != nil {
		return nil, err
	}
	for name, value := range defaults {
		if _, there := members[name]; !there {
			members[name] = value
		}
	}
	if completed, err = json.Marshal(members, json.Deterministic(true)); err != nil {
		return nil, err
	}
	return entry.NewRaw(kind, completed)
}

// submitted is an entry that is in the log now.
type submitted struct {
	Index        uint64          `json:"index"`
	RegisteredAt int64           `json:"registered_at"`
	Kind         entry.Kind      `json:"kind"`
	Issuer       entry.Principal `json:"iss"`
	JTI          string          `json:"jti"`
	Duplicate    bool            `json:"duplicate"`
}

// submit registers entries, prints where they stand, and keeps their receipts.
func (a *app) submit(ctx context.Context, c *connection, entries []*entry.Entry, out string) error {
	results, refused := c.client.SubmitBatch(ctx, entries)
	l := a.newList("INDEX", "REGISTERED", "KIND", "ISSUER", "STATE")
	var receipts []verify.Receipt
	for i, r := range results {
		e, state := entries[i], "new"
		if r.Duplicate {
			state = "was there"
		}
		s := submitted{r.Index, r.RegisteredAt, e.Kind, e.Header.Iss, e.Header.JTI, r.Duplicate}
		if err := l.add(s, decimal(s.Index), instant(s.RegisteredAt), string(s.Kind), string(s.Issuer), state); err != nil {
			return err
		}
		receipts = append(receipts, r.Receipt)
	}
	if len(results) == 0 {
		return refused
	}
	if err := l.close(); err != nil {
		return err
	}
	if out != "" {
		if err := c.writeBundle(ctx, out, receipts); err != nil {
			return err
		}
	}
	return refused
}

func (a *app) entryGetCommand(t *target) *cobra.Command {
	var receipt bool
	var out string
	cmd := &cobra.Command{
		Use:   "get INDEX",
		Short: "Show an entry, or its receipt",
		Long: "Show an entry that is proven to be in the log. With --receipt, its receipt and those of the policies and keys\n" +
			"that it counts by, one a line, for arl verify.",
		Example: "  arl entry get 0 --receipt --out genesis.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			index, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return usage("%q is not an index", args[0])
			}
			return a.withConnection(cmd.Context(), t, func(c *connection) error {
				if receipt || out != "" {
					return a.entryReceipt(cmd.Context(), c, index, out)
				}
				return a.entryGet(cmd.Context(), c, index)
			})
		},
	}
	cmd.Flags().BoolVar(&receipt, "receipt", false, "show the receipt")
	cmd.Flags().StringVar(&out, "out", "", "file for the receipt (default: standard output)")
	return cmd
}

func (a *app) entryReceipt(ctx context.Context, c *connection, index uint64, out string) error {
	receipt, err := c.client.Receipt(ctx, index)
	if err != nil {
		return err
	}
	if out != "" {
		return c.writeBundle(ctx, out, []verify.Receipt{*receipt})
	}
	content, err := c.bundle(ctx, []verify.Receipt{*receipt})
	if err != nil {
		return err
	}
	return a.printText(string(content))
}

// shownEntry is an entry as it is printed.
type shownEntry struct {
	Index        uint64         `json:"index"`
	RegisteredAt int64          `json:"registered_at"`
	LeafHash     merkle.Hash    `json:"leaf_hash"`
	Kind         entry.Kind     `json:"kind"`
	KeyID        string         `json:"keyid"`
	Payload      jsontext.Value `json:"payload"`
	Envelope     api.Envelope   `json:"envelope"`
	// Compromised is there if somebody else may have signed the entry.
	Compromised *compromise `json:"compromised,omitempty"`
}

// showEntry returns an entry with what the chain, which goes on behind it, says of
// its key now.
func showEntry(e *client.Entry, chain *verify.Chain) shownEntry {
	return shownEntry{e.Index, e.RegisteredAt, merkle.HashLeaf(e.Receipt.Leaf), e.Kind, e.KeyID, e.Payload(), api.NewEnvelope(e.Entry.Entry),
		compromiseOf(chain, e.KeyID, e.Index)}
}

func (a *app) entryGet(ctx context.Context, c *connection, index uint64) error {
	e, err := c.client.Entry(ctx, index)
	if err != nil {
		return err
	}
	chain, err := c.chain(ctx)
	if err != nil {
		return err
	}
	s := showEntry(e, chain)
	if a.settings.output == outputJSON {
		return a.printJSON(s)
	}
	payload := jsontext.Value(bytes.Clone(e.Payload()))
	if err := payload.Indent(); err != nil {
		return err
	}
	return a.printText(fmt.Sprintf("entry %d: %s by %s, registered %s\nkey %s%s\nleaf %s\n%s\n", index, e.Kind, e.Header.Iss,
		instant(e.RegisteredAt), e.KeyID, s.Compromised.mark(), s.LeafHash, payload))
}

// listOptions are the filters of arl entry list.
type listOptions struct {
	kinds                           []string
	agent, workflow, incident, task string
	since, until                    string
	from, before                    uint64
	limit                           int
	newest                          bool
}

func (a *app) entryListCommand(t *target) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries, filtered",
		Long: "List entries in the order of the log. Each is proven to be in it. Filters narrow each other down. What a key signed\n" +
			"since it was compromised is marked.",
		Example: "  arl entry list --kind signal --since 2026-11-01T00:00:00Z",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.listEntries(cmd.Context(), c, &o) })
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.kinds, "kind", nil, "of these kinds")
	flags.StringVar(&o.agent, "agent", "", "by or about this principal")
	flags.StringVar(&o.workflow, "workflow", "", "of this workflow")
	flags.StringVar(&o.incident, "incident", "", "of this incident")
	flags.StringVar(&o.task, "task", "", "of this task")
	flags.StringVar(&o.since, "since", "", "registered at or after this time (RFC 3339)")
	flags.StringVar(&o.until, "until", "", "registered before this time (RFC 3339)")
	flags.Uint64Var(&o.from, "from", 0, "from this index on")
	flags.Uint64Var(&o.before, "before", 0, "below this index; 0: to the end")
	flags.IntVar(&o.limit, "limit", 100, "at most so many; 0: all")
	flags.BoolVar(&o.newest, "newest", false, "from the newest backwards")
	return cmd
}

// query returns what the filters ask for.
func (o *listOptions) query() (client.Query, error) {
	q := client.Query{Agent: entry.Principal(o.agent), Workflow: entry.WorkflowID(o.workflow),
		Task: entry.Ref(o.task), From: o.from, Before: o.before, Newest: o.newest, Page: min(o.limit, api.MaxPage)}
	for _, name := range o.kinds {
		kind, err := parseKind(name)
		if err != nil {
			return q, err
		}
		q.Kinds = append(q.Kinds, kind)
	}
	var err error
	if q.Since, err = parseInstant("since", o.since); err != nil {
		return q, err
	}
	if q.Until, err = parseInstant("until", o.until); err != nil {
		return q, err
	}
	if o.incident != "" {
		incident, err := strconv.ParseUint(o.incident, 10, 64)
		if err != nil {
			return q, usage("--incident %s: want the index of its opening signal", o.incident)
		}
		q.Incident = &incident
	}
	return q, nil
}

func (a *app) listEntries(ctx context.Context, c *connection, o *listOptions) error {
	q, err := o.query()
	if err != nil {
		return err
	}
	chain, err := c.chain(ctx)
	if err != nil {
		return err
	}
	l := a.newList("INDEX", "REGISTERED", "KIND", "ISSUER", "WORKFLOW", "WHAT")
	count := 0
	for e, err := range c.client.Entries(ctx, q) {
		if err != nil {
			return err
		}
		s := showEntry(e, chain)
		err := l.add(s, decimal(e.Index), instant(e.RegisteredAt), string(e.Kind), string(e.Header.Iss),
			string(e.Header.Wid), summary(e.Body)+s.Compromised.mark())
		if err != nil {
			return err
		}
		if count++; count == o.limit {
			break
		}
	}
	return l.close()
}

// summary says in a few words what an entry says.
func summary(body entry.Body) string {
	switch b := body.(type) {
	case *entry.Policy:
		if b.Previous == nil {
			return "genesis"
		}
		return fmt.Sprintf("replaces %d", b.Previous.Index)
	case *entry.Agent:
		return fmt.Sprintf("%s %s (%s)", b.Op, b.Principal, joinRoles(b.Roles))
	case *entry.Execution:
		return fmt.Sprintf("%s %s, effect %s", b.Exec, b.Progress, b.Effect)
	case *entry.Checkpoint:
		return b.Checkpoint
	case *entry.Signal:
		return fmt.Sprintf("%s.%s of %s", b.Class, b.Code, b.Subject)
	case *entry.Decision:
		text := fmt.Sprintf("%s incident %d: %s", b.Act, b.Incident, b.Reason)
		if b.NotFenced != "" {
			text += "; NOT FENCED: " + b.NotFenced
		}
		return text
	case *entry.Approval:
		return fmt.Sprintf("%s proposal %d of incident %d", b.Verdict, b.Proposal.Index, b.Incident)
	case *entry.Outcome:
		return fmt.Sprintf("%s is %s, incident %d", b.Exec, b.Result, b.Incident)
	case *entry.Record:
		return fmt.Sprintf("incident %d is %s", b.Incident, b.State)
	case *entry.Task:
		return summaryOfTask(b)
	case *entry.Attempt:
		return fmt.Sprintf("case %s of run %s: %s", b.Case, b.Run, b.Status)
	case *entry.Run:
		return strings.TrimSuffix(fmt.Sprintf("%s run %s: %s", b.Op, b.Run, b.Recommendation), ": ")
	}
	return ""
}

// summaryOfTask says where a task goes by an entry, whose it is then, and why.
func summaryOfTask(b *entry.Task) string {
	text := fmt.Sprintf("%s %s: %s", b.Op, b.Task, b.To)
	if b.To == entry.TaskAssigned {
		text += fmt.Sprintf(" to %s, epoch %d", b.Agent, b.Epoch)
	}
	return text + ": " + b.Reason
}

// parseInstant reads a time for a filter.
func parseInstant(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, usage("--%s %s: want a time such as 2026-11-01T00:00:00Z", flag, text)
	}
	return at.UnixMilli(), nil
}
