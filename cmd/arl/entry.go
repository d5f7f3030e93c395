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

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func (a *app) entryCommand() *cobra.Command {
	var t access.Target
	cmd := &cobra.Command{
		Use:     "entry",
		Short:   "Write and read entries",
		Example: "  arl entry list --newest",
	}
	t.Register(cmd.PersistentFlags())
	cmd.AddCommand(a.entrySubmitCommand(&t), a.entryTemplateCommand(), a.entryGetCommand(&t), a.entryListCommand(&t), a.entryImportCommand(&t))
	return cmd
}

// submitOptions are the flags of arl entry submit.
type submitOptions struct {
	access.SignerFlags
	kind, payload, out string
	force              bool // take words that the taxonomy does not have
}

func (a *app) entrySubmitCommand(t *access.Target) *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "submit [FILE|-]",
		Short: "Submit signed envelopes, or sign a payload and submit it",
		Long: "Submit one DSSE envelope, or several, one a line. The ledger takes them in order and stops at the first refusal.\n" +
			"Submitting the same envelope again is safe. With --kind and --payload, the command first signs the payload. It\n" +
			"fills in v, jti, iss, aud and iat where the payload has none.",
		Example: "  arl entry submit --kind execution --payload step.json --key agent.key --out receipt.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (o.payload != "") {
				return exit.Usagef("pass either a file of envelopes, or --kind and --payload")
			}
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error {
				if err := terminal.CheckOut(o.out); err != nil {
					return err
				}
				if len(args) == 1 {
					return a.submitEnvelopes(cmd.Context(), c, args[0], o.out)
				}
				return a.submitPayload(cmd.Context(), c, &o)
			})
		},
	}
	cmd.Flags().StringVar(&o.kind, "kind", "", "kind of the payload (arl entry template writes an example)")
	manual.NameValue(cmd.Flags(), "kind", "KIND")
	cmd.Flags().StringVar(&o.payload, "payload", "", "file of the payload, - for standard input")
	o.Register(cmd.Flags())
	cmd.Flags().StringVar(&o.out, "out", "", "write the receipts, and all that is needed to verify their signers, to FILE")
	cmd.Flags().BoolVar(&o.force, "force", false, "sign a signal whose class or code is not in the taxonomy")
	cmd.MarkFlagsRequiredTogether("kind", "payload")
	return cmd
}

// inputMax is the size of a file of envelopes in bytes.
const inputMax = 1 << 30

func (a *app) submitEnvelopes(ctx context.Context, c *access.Connection, file, out string) error {
	data, err := a.ReadInput(file, inputMax)
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
			return exit.Usagef("%s: envelope %d: %w", file, number, err)
		}
		e, err := entry.Decode(envelope)
		if err != nil {
			return fmt.Errorf("%s: envelope %d: %w", file, number, err)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return exit.Usagef("%s: the input has no envelope", file)
	}
	return a.submit(ctx, c, entries, out)
}

func (a *app) submitPayload(ctx context.Context, c *access.Connection, o *submitOptions) error {
	kind, err := parseKind(o.kind)
	if err != nil {
		return err
	}
	payload, err := a.ReadInput(o.payload, entry.MaxEnvelope)
	if err != nil {
		return err
	}
	signer, err := a.machine().Signer(ctx, c, o.SignerFlags, node.Operator)
	if err != nil {
		return err
	}
	e, err := entry.Complete(kind, payload, keys.NewHeader(signer.Principal, c.Root.Origin))
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
		Short: "Write an example payload of a kind",
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
			return a.PrintText(string(entry.Example(kind)))
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
	return "", exit.Usagef("kind %q: want one of %s", text, strings.Join(names, ", "))
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
func (a *app) submit(ctx context.Context, c *access.Connection, entries []*entry.Entry, out string) error {
	results, refused := c.Client.SubmitBatch(ctx, entries)
	l := a.NewList("INDEX", "REGISTERED", "KIND", "ISSUER", "STATE")
	var receipts []verify.Receipt
	for i, r := range results {
		e, state := entries[i], "new"
		if r.Duplicate {
			state = "was there"
		}
		s := submitted{r.Index, r.RegisteredAt, e.Kind, e.Header.Iss, e.Header.JTI, r.Duplicate}
		if err := l.Add(s, decimal(s.Index), instant(s.RegisteredAt), string(s.Kind), string(s.Issuer), state); err != nil {
			return err
		}
		receipts = append(receipts, r.Receipt)
	}
	if len(results) == 0 {
		return refused
	}
	if err := l.Close(); err != nil {
		return err
	}
	if out != "" {
		if err := c.WriteBundle(ctx, out, receipts); err != nil {
			return err
		}
	}
	return refused
}

func (a *app) entryGetCommand(t *access.Target) *cobra.Command {
	var receipt bool
	var out string
	var w access.Where
	cmd := &cobra.Command{
		Use:   "get INDEX",
		Short: "Show an entry, or its receipt",
		Long: "Show an entry, and verify that it is in the log. With --receipt, print the receipt of the entry and the receipts\n" +
			"of the policies and keys that verify its signer, one a line, for arl verify. With --data, read a stopped ledger.",
		Example: "  arl entry get 0 --receipt --out genesis.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			index, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return exit.Usagef("%q is not an index", args[0])
			}
			w.Target = *t
			return a.machine().WithLog(cmd.Context(), &w, func(l *access.Log) error {
				if receipt || out != "" {
					return a.entryReceipt(cmd.Context(), l, index, out)
				}
				return a.entryGet(cmd.Context(), l, index)
			})
		},
	}
	w.RegisterInPlace(cmd.Flags())
	cmd.Flags().BoolVar(&receipt, "receipt", false, "show the receipt")
	cmd.Flags().StringVar(&out, "out", "", "file for the receipt (default: standard output)")
	return cmd
}

func (a *app) entryReceipt(ctx context.Context, l *access.Log, index uint64, out string) error {
	receipt, err := l.Receipt(ctx, index)
	if err != nil {
		return err
	}
	if c, running := l.Registry.(*access.Connection); running && out != "" {
		return c.WriteBundle(ctx, out, []verify.Receipt{*receipt})
	}
	content, err := access.ReceiptLines(ctx, l.Registry, l.Root, []verify.Receipt{*receipt})
	if err != nil {
		return err
	}
	return a.WriteOut(out, content)
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
	Compromised *verify.Compromise `json:"compromised,omitempty"`
}

// showEntry returns an entry with what the chain, which goes on behind it, says of
// its key now.
func showEntry(e *client.Entry, chain *verify.Chain) shownEntry {
	return shownEntry{e.Index, e.RegisteredAt, merkle.HashLeaf(e.Receipt.Leaf), e.Kind, e.KeyID, e.Payload(), api.NewEnvelope(e.Entry.Entry),
		chain.Compromise(e.KeyID, e.Index)}
}

func (a *app) entryGet(ctx context.Context, l *access.Log, index uint64) error {
	e, err := l.Entry(ctx, index)
	if err != nil {
		return err
	}
	chain, err := l.Registry.Chain(ctx)
	if err != nil {
		return err
	}
	s := showEntry(e, chain)
	if a.JSON() {
		return a.PrintJSON(s)
	}
	payload := jsontext.Value(bytes.Clone(e.Payload()))
	if err := payload.Indent(); err != nil {
		return err
	}
	return a.PrintText(fmt.Sprintf("entry %d: %s by %s, registered %s\nkey %s%s\nleaf %s\n%s\n", index, e.Kind, e.Header.Iss,
		instant(e.RegisteredAt), e.KeyID, words.Compromised(s.Compromised), s.LeafHash, payload))
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

func (a *app) entryListCommand(t *access.Target) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries",
		Long: "List entries in the order of the log. The command verifies that each entry is in the log. Several filters\n" +
			"together select fewer entries. A mark shows entries that a key signed after it was compromised.",
		Example: "  arl entry list --kind signal --since 2026-11-01T00:00:00Z",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.listEntries(cmd.Context(), c, &o) })
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.kinds, "kind", nil, "only entries of these kinds")
	flags.StringVar(&o.agent, "agent", "", "only entries by or about this principal")
	flags.StringVar(&o.workflow, "workflow", "", "only entries of this workflow")
	flags.StringVar(&o.incident, "incident", "", "only entries of this incident")
	flags.StringVar(&o.task, "task", "", "only entries of this task")
	flags.StringVar(&o.since, "since", "", "only entries registered at or after this time (RFC 3339)")
	flags.StringVar(&o.until, "until", "", "only entries registered before this time (RFC 3339)")
	flags.Uint64Var(&o.from, "from", 0, "only entries from this index on")
	flags.Uint64Var(&o.before, "before", 0, "only entries below this index; 0: to the end")
	flags.IntVar(&o.limit, "limit", 100, "greatest number of entries; 0: all")
	flags.BoolVar(&o.newest, "newest", false, "newest first")
	return cmd
}

// query returns what the filters ask for.
func (o *listOptions) query() (api.ListQuery, error) {
	q := api.ListQuery{Agent: entry.Principal(o.agent), Workflow: entry.WorkflowID(o.workflow),
		Task: entry.Ref(o.task), From: o.from, Newest: o.newest, Limit: min(o.limit, api.MaxPage)}
	if o.before != 0 {
		q.Before = &o.before
	}
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
			return q, exit.Usagef("--incident %s: want the index of its opening signal", o.incident)
		}
		q.Incident = &incident
	}
	return q, nil
}

func (a *app) listEntries(ctx context.Context, c *access.Connection, o *listOptions) error {
	q, err := o.query()
	if err != nil {
		return err
	}
	chain, err := c.Chain(ctx)
	if err != nil {
		return err
	}
	l := a.NewList("INDEX", "REGISTERED", "KIND", "ISSUER", "WORKFLOW", "WHAT")
	count := 0
	for e, err := range c.Client.Entries(ctx, q) {
		if err != nil {
			return err
		}
		s := showEntry(e, chain)
		err := l.Add(s, decimal(e.Index), instant(e.RegisteredAt), string(e.Kind), string(e.Header.Iss),
			string(e.Header.Wid), words.Summary(e.Body)+words.Compromised(s.Compromised))
		if err != nil {
			return err
		}
		if count++; count == o.limit {
			break
		}
	}
	return l.Close()
}

// parseInstant reads a time for a filter.
func parseInstant(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, exit.Usagef("--%s %s: want a time such as 2026-11-01T00:00:00Z", flag, text)
	}
	return at.UnixMilli(), nil
}
