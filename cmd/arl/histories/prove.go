// Package histories shows the history of a principal in a log. It also fetches the documents that
// prove which entries there are, and that there are no others.
package histories

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Proof names the document that a command fetches in place of its usual output.
type Proof struct {
	Prove bool
	At    uint64 // size of the log that the document ends at; 0: the newest
	From  uint64 // first index
	Limit int    // greatest number of entries
	Out   string // file; empty: standard output
}

// Register adds the flags.
func (p *Proof) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&p.Prove, "prove", false, "fetch a history file, which proves every entry, and that there are no others")
	flags.Uint64Var(&p.At, "at", 0, "with --prove: as of the first N entries of the log (default: all)")
	flags.Uint64Var(&p.From, "from", 0, "with --prove: only entries from INDEX on, where an earlier file ended")
	flags.IntVar(&p.Limit, "limit", api.MaxCompletePage, "with --prove: greatest number of entries of the subject, the oldest")
	flags.StringVar(&p.Out, "out", "", "with --prove: write the history file to FILE (default: standard output)")
}

// Check returns a usage error for flags that do not fit each other, or do not fit the log.
func (p *Proof) Check(w *access.Where) error {
	switch {
	case !p.Prove && *p != Proof{Limit: api.MaxCompletePage}:
		return exit.Usagef("--at, --from, --limit and --out need --prove, which makes a history file")
	case p.Prove && w.Data != "":
		return exit.Usagef("--data: only a running ledger with an index (arl serve --index) makes history files: pass --url")
	case p.At != 0 && p.From >= p.At:
		return exit.Usagef("--from %d: want less than --at %d", p.From, p.At)
	case p.Limit < 1 || p.Limit > api.MaxCompletePage:
		return exit.Usagef("--limit %d: want 1 to %d", p.Limit, api.MaxCompletePage)
	}
	return nil
}

// written is the output about a written file.
type written struct {
	File    string          `json:"file"`
	Size    uint64          `json:"size"`
	Answers []verify.Answer `json:"answers"`
	Heads   []merkle.Head   `json:"heads"`
}

// Fetch fetches the history file of a subject, verifies the file, and writes it. The file of an
// agent also has the incidents of the agent.
func (p *Proof) Fetch(ctx context.Context, out *terminal.Terminal, c *access.Connection, of entry.Subject) error {
	q := api.CompleteQuery{Type: of.Type, Value: of.Value, Since: p.From, Size: p.At, Limit: p.Limit,
		Incidents: of.Type == entry.SubjectAgent, Witnessed: c.Root.Watched()}
	found, err := c.Client.Complete(ctx, q)
	if err != nil {
		return err
	}
	file, err := found.History.Encode()
	if err != nil {
		return err
	}
	cut := p.cut(found)
	if p.Out == "" {
		if cut != "" {
			out.Tell("%s", cut)
		}
		return out.PrintText(string(file) + "\n")
	}
	if err := exit.Output(p.Out, durable.Write(p.Out, file, 0o644)); err != nil {
		return err
	}
	fields := []terminal.Field{{"file", p.Out}}
	for i := range found.Report.Answers {
		fields = append(fields, terminal.Field{"proves", found.Report.Answers[i].String()})
	}
	for _, head := range found.Report.Heads {
		fields = append(fields, terminal.Field{"tree head", fmt.Sprintf("size %d, root %s", head.Size, head.Root)})
	}
	if cut != "" {
		fields = append(fields, terminal.Field{"goes on", cut})
	}
	return out.PrintObject(written{p.Out, found.History.Size, found.Report.Answers, found.Report.Heads}, fields...)
}

// cut says that the limit ended the history, and how to continue.
func (p *Proof) cut(found *client.Complete) string {
	end := found.Report.Heads[len(found.Report.Heads)-1].Size
	if p.At != 0 {
		end = p.At
	}
	if found.History.Size >= end {
		return ""
	}
	return fmt.Sprintf("the limit ended the history before entry %d: continue with --from %d", found.History.Size, found.History.Size)
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
