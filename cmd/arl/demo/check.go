package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"recoveryledger/api/client"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// findings are what was checked, and the incidents that it was checked against.
type findings struct {
	receipts, held, entries, effects, bundles int
	size                                      uint64
	at                                        int64 // when the bundles were judged, Unix milliseconds
}

// history is the log as the audit has read it.
type history struct {
	leaves      []merkle.Hash
	roots       []merkle.Hash // of the tree, by size
	executions  map[entry.Ref]*entry.Execution
	comps       map[entry.Ref]entry.Ref // compensation by member, that was confirmed
	checkpoints map[entry.Ref]*entry.Checkpoint
}

// check verifies every receipt, audits the log, and compares what the agents did
// with what follows from it. Nobody but the ledger runs any more.
func (c *conductor) check(ctx context.Context) (*findings, error) {
	h := &history{executions: map[entry.Ref]*entry.Execution{}, comps: map[entry.Ref]entry.Ref{}, checkpoints: map[entry.Ref]*entry.Checkpoint{}}
	tree, err := merkle.NewFrontier(0, nil)
	if err != nil {
		return nil, err
	}
	h.roots = append(h.roots, merkle.Hash{}) // nobody holds a receipt of nothing
	var broken error
	audited, err := c.cfg.Audit(ctx, c.dir.path("home"), func(e entry.Registered) { broken = errors.Join(broken, h.take(e, tree)) })
	if err := errors.Join(err, broken); err != nil {
		return nil, err
	}
	found := &findings{size: audited.Head.Size, entries: len(h.leaves), at: audited.Now}
	if found.receipts, err = c.saveReceipts(ctx, audited.Head); err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(agents(), []entry.Principal{publisher}) {
		n, err := c.heldBy(name, h)
		if err != nil {
			return nil, err
		}
		found.held += n
	}
	w := &comparison{dir: c.dir, log: h}
	for _, incident := range slices.Sorted(maps.Keys(c.records)) {
		plan, ok := audited.State.PlanInForce(incident, audited.Now)
		if !ok {
			return nil, fmt.Errorf("%w: incident %d has a record and no plan", ErrDiffers, incident)
		}
		if err := w.plan(plan); err != nil {
			return nil, err
		}
		n, err := c.saveBundles(ctx, incident, plan, found.at)
		if err != nil {
			return nil, err
		}
		found.bundles += n
	}
	found.effects = w.effects
	return found, w.rest()
}

// take keeps what is needed of an entry.
func (h *history) take(e entry.Registered, tree *merkle.Frontier) error {
	leaf := merkle.HashLeaf(e.AppendLeaf(nil))
	if err := tree.Append(leaf, func(uint, uint64, merkle.Hash) {}); err != nil {
		return err
	}
	head, err := tree.Head()
	h.leaves, h.roots = append(h.leaves, leaf), append(h.roots, head.Root)
	switch body := e.Body.(type) {
	case *entry.Execution:
		h.executions[body.Ref()] = body
		if body.Compensates != nil && body.Progress == entry.Confirmed {
			h.comps[body.Compensates.Exec] = body.Ref()
		}
	case *entry.Checkpoint:
		h.checkpoints[entry.NewRef(body.Iss, body.Checkpoint)] = body
	}
	return err
}

// saveReceipts fetches the receipt of every entry, verifies them together against
// the pinned root, and writes them to a file.
func (c *conductor) saveReceipts(ctx context.Context, head merkle.Head) (int, error) {
	var all verify.Material
	var file bytes.Buffer
	for index := range head.Size {
		r, err := c.client.Receipt(ctx, index)
		if err != nil {
			return 0, err
		}
		text, err := r.Encode()
		if err != nil {
			return 0, err
		}
		file.Write(append(text, '\n'))
		all.Receipts = append(all.Receipts, *r)
	}
	report, err := c.root.Verify(all)
	if err != nil {
		return 0, err
	}
	if len(report.Missing) > 0 {
		return 0, fmt.Errorf("%w: not everything could be checked: %s", ErrDiffers, report.Missing[0])
	}
	return len(report.Entries), write(c.dir.path("receipts.ndjson"), file.Bytes())
}

// saveBundles fetches what each agent of a plan was told to undo, verifies it as
// somebody would who has nothing but the pinned root, and writes it to files.
func (c *conductor) saveBundles(ctx context.Context, incident uint64, plan *coord.PlanView, now int64) (int, error) {
	members := map[entry.Principal]int{}
	for i := range plan.Members {
		members[plan.Members[i].Agent]++
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		page, err := c.client.Bundle(ctx, client.BundleQuery{Incident: incident, Agent: name})
		if err != nil {
			return 0, err
		}
		if err := judge(page.Bundle, c.root, members[name], now); err != nil {
			return 0, fmt.Errorf("%w: incident %d, %s: %w", ErrDiffers, incident, name, err)
		}
		text, err := page.Encode()
		if err == nil {
			err = write(c.dir.bundle(incident, name), append(text, '\n'))
		}
		if err != nil {
			return 0, err
		}
	}
	return len(members), nil
}

// judge wants a bundle to hold by AGT-1 to AGT-3, with all members of its agent.
func judge(b *verify.Bundle, root verify.Root, members int, now int64) error {
	v, err := b.Check(verify.Accepted{Root: root}, now)
	if err != nil {
		return err
	}
	for i := range v.Commands {
		if v.Commands[i].Refused != nil {
			return v.Commands[i].Refused
		}
	}
	if len(v.Commands) != members {
		return fmt.Errorf("the bundle shows %d members of %d", len(v.Commands), members)
	}
	return nil
}

func (d directory) bundle(incident uint64, p entry.Principal) string {
	return d.path("bundles", fmt.Sprintf("%d-%s.json", incident, p))
}

// heldBy checks the receipts that an agent was given as it worked: each is of the
// entry at its index, under a head that is one of this log.
func (c *conductor) heldBy(name entry.Principal, h *history) (int, error) {
	text, err := os.ReadFile(c.dir.receipts(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	count := 0
	for line := range bytes.Lines(text) {
		r, err := verify.DecodeReceipt(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return 0, fmt.Errorf("demo: receipt %d of %s: %w", count, name, err)
		}
		if _, err := c.root.Verify(verify.Material{Receipts: []verify.Receipt{r}}); err != nil {
			return 0, err
		}
		head, err := c.root.Head([]byte(r.Head))
		if err != nil {
			return 0, err
		}
		if head.Size >= uint64(len(h.roots)) || h.roots[head.Size] != head.Root || h.leaves[r.Index] != merkle.HashLeaf(r.Leaf) {
			return 0, fmt.Errorf("%w: %s holds a receipt of entry %d that is of another log", ErrDiffers, name, r.Index)
		}
		count++
	}
	return count, nil
}

// comparison is of the world with the log.
type comparison struct {
	dir      directory
	log      *history
	members  map[entry.Ref]bool
	effects  int // that were compared
	mailed   map[entry.Ref]int
	booked   map[string]int
	keysOf   map[entry.Ref][]string
	prepared bool
}

func (w *comparison) prepare() error {
	if w.prepared {
		return nil
	}
	w.prepared, w.members, w.mailed, w.keysOf = true, map[entry.Ref]bool{}, map[entry.Ref]int{}, map[entry.Ref][]string{}
	text, err := os.ReadFile(w.dir.mails())
	if err != nil {
		return err
	}
	sent, err := readMails(text)
	if err != nil {
		return err
	}
	for _, m := range sent {
		w.mailed[m.Exec]++
	}
	w.booked, err = w.dir.rows(booker).booked()
	return err
}

// plan compares the outcome of each member with what is there.
func (w *comparison) plan(plan *coord.PlanView) error {
	if err := w.prepare(); err != nil {
		return err
	}
	for i := range plan.Members {
		m := &plan.Members[i]
		w.members[m.Exec] = true
		why, err := w.member(m)
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("%w: %s is %s, but %s", ErrDiffers, m.Exec, m.Result, why)
		}
		w.effects++
	}
	return nil
}

// member says what is not as the outcome of a member says; empty if all is.
func (w *comparison) member(m *coord.MemberView) (string, error) {
	switch m.Result {
	case entry.Restored:
		return w.restored(m)
	case entry.Compensated:
		return w.compensated(m)
	case entry.ResultIrrevocable:
		if w.mailed[m.Exec] != 1 {
			return fmt.Sprintf("%d mails of it were sent, want 1", w.mailed[m.Exec]), nil
		}
		return "", nil
	case entry.NotExecuted:
		_, id, _ := strings.Cut(string(m.Exec), "#")
		if _, err := os.Stat(w.dir.queued(id)); err == nil || w.mailed[m.Exec] != 0 {
			return "its mail is in the queue, or was sent", nil
		}
		return "", nil
	}
	return "no such outcome was to be expected", nil
}

// restored compares the state of a line with the checkpoint in the log.
func (w *comparison) restored(m *coord.MemberView) (string, error) {
	secret, err := w.dir.secret(m.Agent)
	if err != nil {
		return "", err
	}
	state, err := w.dir.reversible(m.Agent).snapshot(w.log.executions[m.Exec].Wid)
	if err != nil {
		return "", err
	}
	if c := w.log.checkpoints[m.Checkpoint]; c == nil || stateDigest(secret, state) != c.Digest {
		return "the state of its line is not that of the checkpoint " + string(m.Checkpoint), nil
	}
	return "", nil
}

// compensated wants one cancellation, under the key whose digest the compensation
// has logged before it acted.
func (w *comparison) compensated(m *coord.MemberView) (string, error) {
	found, err := w.dir.rows(m.Agent).cancelled(m.Exec)
	if err != nil {
		return "", err
	}
	comp := w.log.executions[w.log.comps[m.Exec]]
	if comp == nil || len(found) != 1 || entry.DigestOf([]byte(found[0])) != comp.IdempotencyKey {
		return fmt.Sprintf("it was cancelled %d times, or under another key than was logged", len(found)), nil
	}
	return "", nil
}

// rest looks for effects that no entry tells of, and for what was done behind the
// fence.
func (w *comparison) rest() error {
	for exec := range w.mailed {
		if w.log.executions[exec] == nil {
			return fmt.Errorf("%w: a mail was sent by %s, which is not in the log", ErrDiffers, exec)
		}
	}
	for exec := range w.booked {
		if w.log.executions[entry.Ref(exec)] == nil || !w.members[entry.Ref(exec)] {
			return fmt.Errorf("%w: a booking of %s stands, which the log does not say", ErrDiffers, exec)
		}
	}
	page, err := w.dir.files(publisher).read(offer)
	if err == nil && len(page) > 0 {
		err = fmt.Errorf("%w: the publisher has published what was fenced", ErrDiffers)
	}
	return err
}

// show prints the records, what was checked, and the commands to check it with,
// after running them.
func (c *conductor) show(ctx context.Context, found *findings) error {
	for _, incident := range slices.Sorted(maps.Keys(c.records)) {
		r := c.records[incident]
		c.shown.say(line{Who: "record", Kind: "record", Incident: incident, Text: record(r) + " (workflow " + string(c.incidents[incident]) + ")"})
	}
	for _, text := range []string{
		fmt.Sprintf("every receipt: %d of the log's entries, and %d that the agents were given as they worked", found.receipts, found.held),
		fmt.Sprintf("every command: %d bundles that say what an agent has to undo and why, by AGT-1 to AGT-3", found.bundles),
		fmt.Sprintf("the log: %d entries under the signed tree head of size %d, by REG-1 to REG-9", found.entries, found.size),
		fmt.Sprintf("the world: files, SQL rows, queue and mail of %d undone executions are what the records say", found.effects),
	} {
		c.shown.say(line{Who: "checked", Kind: "checked", Text: text})
	}
	home := c.dir.path("home")
	for _, command := range c.commands(home, found.at) {
		if err := c.troupe.run(ctx, strings.Join(command.args[:2], " "), command.exit, command.args...); err != nil {
			return err
		}
		c.shown.say(line{Who: "try", Kind: "command", Text: "arl " + shellLine(command.args) + command.says})
	}
	return c.shown.err
}

// command is a command to check the demo with, and the exit code that it has.
type command struct {
	args []string
	exit int
	says string
}

func (c *conductor) commands(home string, at int64) []command {
	then := time.UnixMilli(at).UTC().Format(time.RFC3339) // the decision's time will be over
	list := []command{
		{args: []string{"verify", c.dir.path("receipts.ndjson"), "--home", home}},
		{args: []string{"verify", c.dir.bundle(slices.Max(slices.Collect(maps.Keys(c.records))), booker), "--home", home, "--at", then}},
		{args: []string{"log", "audit", "--data", c.dir.path("ledger"), "--home", home}},
	}
	for _, incident := range slices.Sorted(maps.Keys(c.records)) {
		shows := command{args: []string{"incident", "show", fmt.Sprint(incident), "--data", c.dir.path("ledger"), "--home", home}}
		if state := c.records[incident].State; state != coord.Recovered.String() && state != coord.NoEffects.String() {
			shows.exit, shows.says = exitIncomplete, fmt.Sprintf("   # exit code %d: not everything could be undone", exitIncomplete)
		}
		list = append(list, shows)
	}
	return list
}

// exitIncomplete is the exit code of arl incident show where something is left.
const exitIncomplete = 11

// shellLine writes arguments as a shell reads them.
func shellLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		if quoted[i] = arg; strings.ContainsFunc(arg, func(r rune) bool {
			return !strings.ContainsRune("-_./=,:@%+", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) || arg == "" {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
