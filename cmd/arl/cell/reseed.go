package cell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/ledger/durable"
	"recoveryledger/merkle"
)

// reseeding begins a cluster again from one node, whose majority is lost.
type reseeding struct {
	*asking
	heads, without []string
	reason         string

	site *site.Site
	node *node.Node
	said map[string]bool // nodes whose head is in a file
}

// reseeded is the note about a cluster that was begun again.
type reseeded struct {
	At      time.Time             `json:"at"`
	Before  agreement.Incarnation `json:"before"` // the incarnation that ended
	Head    merkle.Head           `json:"head"`
	Note    string                `json:"note"`
	Without []string              `json:"without"`
	Reason  string                `json:"reason"`
}

func reseedCommand(t *terminal.Terminal) *cobra.Command {
	r := new(reseeding)
	cmd := command(t, &cobra.Command{
		Use:   "reseed",
		Short: "Begin the cluster again from one node, when the majority is lost",
		Long: "Begin a cluster again, as a new incarnation, from the node with the longest log, which must not run. Every node\n" +
			"that it knew is asked, or has its head in a file (arl cluster evidence), and none may be ahead. A node that is\n" +
			"lost for good is named by --without, with a reason. It must never run again: it could sign other entries.",
		Example: "  arl cluster reseed --data ./data --head n2.json --without n3 --reason 'the disk of n3 is gone'",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, a *asking, _ []string) error {
		r.asking = a
		return r.run(ctx)
	})
	cmd.Flags().StringArrayVar(&r.heads, "head", nil, "file with a head that was seen: of arl cluster evidence, or a tree head; once for each")
	cmd.Flags().StringArrayVar(&r.without, "without", nil, "node that is lost for good; once for each")
	cmd.Flags().StringVar(&r.reason, "reason", "", "why nodes are left out; noted in DIR/cluster/reseeded.json")
	return cmd
}

func (r *reseeding) run(ctx context.Context) (err error) {
	if (len(r.without) > 0) != (r.reason != "") {
		return exit.Usagef("--without NODE and --reason TEXT go together")
	}
	if r.site, err = site.Load(r.data); err != nil {
		return loading(err)
	}
	if !r.site.Reseeds {
		if err := r.decide(ctx); err != nil {
			return err
		}
	}
	unlock, err := cluster.Lock(r.site.EtcdDir()) // a node that starts has no log open yet
	if err != nil {
		return opening(err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if !r.site.Reseeds {
		if err := r.site.Reseed(); err != nil { // from here on, an interrupted run is ended by the next one
			return err
		}
	}
	if err := r.single(); err != nil { // the next start makes it the first node of the new incarnation
		return err
	}
	if err := r.site.Reseeded(); err != nil {
		return err
	}
	own, err := r.noted()
	if err != nil {
		return err
	}
	if r.t.JSON() {
		return r.t.PrintJSON(map[string]any{"data": r.data, "size": own.Size, "root": own.Root})
	}
	return r.t.PrintText(fmt.Sprintf("the cluster begins again with %s: arl serve --cluster --data %s; let the other nodes join anew, with empty directories\n", words.Counted(own.Size, "entry"), r.data))
}

// decide notes with what the cluster begins again, if nobody is ahead of this node.
func (r *reseeding) decide(ctx context.Context) (err error) {
	r.node, err = r.look(ctx, r.site)
	if err != nil && !r.site.Begun() && !r.site.Joined {
		return exit.Remedied("start it: arl serve --cluster --data "+r.data,
			exit.With(exit.Conflict, fmt.Errorf("%s has begun its cluster again, or has not begun: %w", r.data, err)))
	}
	if err != nil {
		return err
	}
	own := r.node.Log.Head()
	if err := errors.Join(r.judged(ctx), r.node.Log.Close()); err != nil {
		return err
	}
	text, err := json.Marshal(&reseeded{At: node.WallClock().UTC(), Before: r.site.Incarnation, Head: own.Head, Note: own.Note, Without: r.without, Reason: r.reason}, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.Write(r.site.ReseededFile(), append(text, '\n'), 0o600)
}

// noted returns the head with which the cluster begins again.
func (r *reseeding) noted() (head merkle.Head, err error) {
	text, err := os.ReadFile(r.site.ReseededFile())
	if err != nil {
		return head, err
	}
	var noted reseeded
	err = json.Unmarshal(text, &noted)
	return noted.Head, err
}

// judged returns nil if nobody is known to have more than this node, or another root.
func (r *reseeding) judged(ctx context.Context) error {
	r.said = map[string]bool{}
	for _, name := range r.heads {
		if err := r.file(name); err != nil {
			return err
		}
	}
	if _, err := os.Stat(r.site.EtcdDir()); err == nil {
		known := uint64(0)
		err := r.inEtcd(ctx, r.site, func(ctx context.Context, n *cluster.Node) (err error) {
			known, err = n.Known(ctx)
			return err
		})
		if err != nil {
			return exit.Remedied("if the files of etcd are damaged, move DIR/cluster/etcd away", err)
		}
		if err := behind(r.data, r.node.Log.Size(), known); err != nil {
			return err
		}
	}
	members, err := r.members()
	if err != nil {
		return err
	}
	c, err := peer.NewClient(r.site)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	for _, m := range members {
		if m.Name == r.site.Name || r.said[m.Name] || slices.Contains(r.without, m.Name) {
			continue
		}
		shown, err := c.Head(ctx, m.Peer, 0)
		if err != nil {
			return exit.Remedied(fmt.Sprintf("start %[1]s, or pass the file that arl cluster evidence prints there with --head; if %[1]s is lost for good, pass --without %[1]s --reason TEXT", m.Name),
				exit.With(exit.Unavailable, fmt.Errorf("%s at %s does not say what it has: %w", m.Name, m.Peer, err)))
		}
		if err := r.judge(m.Name, shown.Head, shown.Note); err != nil {
			return err
		}
	}
	for _, name := range r.without {
		if !slices.ContainsFunc(members, func(m known) bool { return m.Name == name }) {
			return exit.With(exit.NotFound, fmt.Errorf("--without %s: the node knew no such node", name))
		}
	}
	return nil
}

// members returns the nodes that this one knew.
func (r *reseeding) members() (all []known, err error) {
	text, err := os.ReadFile(r.site.MembersFile())
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if errors.Is(err, fs.ErrNotExist) { // it never ran to the end of a round
		for name := range r.site.Members {
			all = append(all, known{Name: name})
		}
		return all, nil
	}
	return all, err
}

// file judges the head in a file.
func (r *reseeding) file(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return exit.With(exit.IO, err)
	}
	var p proof
	if json.Unmarshal(text, &p) == nil && p.Shown != nil {
		r.said[p.Shown.Node] = true
		text = []byte(p.Shown.Note)
	}
	root, err := r.node.Root()
	if err != nil {
		return err
	}
	head, err := root.Head(text)
	if err != nil {
		return exit.With(exit.Usage, fmt.Errorf("--head %s: %w", name, err))
	}
	return r.judge(name, head, string(text))
}

// judge refuses a head that is ahead of this node, or of another log.
func (r *reseeding) judge(who string, head merkle.Head, note string) error {
	own := r.node.Log.Head()
	if head.Size > own.Size {
		return exit.Remedied("reseed from the node that is ahead; if that is lost, continue under a new origin (arl ledger new-origin)",
			exit.With(exit.Conflict, fmt.Errorf("%s is ahead: it has\n%s\nand %s has\n%s", who, note, r.site.Name, own.Note)))
	}
	at, err := r.node.Log.HeadAt(head.Size)
	if err == nil && at.Root != head.Root {
		err = fmt.Errorf("%w: %s has root %s of size %d, and %s has root %s", agreement.ErrDiverged, who, head.Root, head.Size, r.site.Name, at.Root)
	}
	return err
}
