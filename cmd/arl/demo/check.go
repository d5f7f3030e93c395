package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// findings count the checked objects.
type findings struct {
	receipts, held, effects, bundles int
	at                               int64 // time of the check of the bundles, Unix milliseconds
}

// history is the log's executions and checkpoints.
type history struct {
	executions  map[entry.Ref]*entry.Execution
	comps       map[entry.Ref]*entry.Execution // confirmed compensation, by member
	checkpoints map[entry.Ref]*entry.Checkpoint
}

func newHistory() history {
	return history{map[entry.Ref]*entry.Execution{}, map[entry.Ref]*entry.Execution{}, map[entry.Ref]*entry.Checkpoint{}}
}

// take keeps the needed values of an entry.
func (h history) take(body entry.Body) {
	switch body := body.(type) {
	case *entry.Execution:
		h.executions[body.Ref()] = body
		if body.Compensates != nil && body.Progress == entry.Confirmed {
			h.comps[body.Compensates.Exec] = body
		}
	case *entry.Checkpoint:
		h.checkpoints[entry.NewRef(body.Iss, body.Checkpoint)] = body
	}
}

// check verifies every receipt and bundle, and compares the world with the plans that follow from
// the log. Only the ledger still runs.
func (c *conductor) check(ctx context.Context) (*findings, error) {
	found := &findings{at: time.Now().UnixMilli()}
	if err := c.saveReceipts(ctx, found); err != nil {
		return nil, err
	}
	w := &comparison{dir: c.dir, log: c.log}
	for incident, r := range c.records {
		var shown struct {
			Plan struct {
				Members []member `json:"members"`
			} `json:"plan"`
		}
		text, err := c.troupe.run(ctx, exitOf(r), "incident", "show", fmt.Sprint(incident), "--output", "json")
		if err == nil {
			err = json.Unmarshal(text, &shown)
		}
		if err != nil {
			return nil, err
		}
		n, err := c.saveBundles(ctx, incident, shown.Plan.Members, found.at)
		if err != nil {
			return nil, err
		}
		found.bundles += n
		w.members = append(w.members, shown.Plan.Members...)
	}
	found.effects = len(w.members)
	return found, w.compare()
}

// member is a member of a plan in the form of arl incident show.
type member struct {
	Exec       entry.Ref       `json:"exec"`
	Agent      entry.Principal `json:"agent"`
	Checkpoint entry.Ref       `json:"checkpoint"`
	Result     entry.Result    `json:"result"`
}

// exitOf returns the exit code of arl incident show for a record: incomplete if an effect was not
// undone.
func exitOf(r *entry.Record) int {
	if r.State.LeftUndone() {
		return exitIncomplete
	}
	return 0
}

const exitIncomplete = 11

// saveReceipts fetches the receipt of every entry and writes the receipts to a file. It verifies
// them against the pinned root, together with the receipts that the agents got.
func (c *conductor) saveReceipts(ctx context.Context, found *findings) error {
	log, err := c.client.Log(ctx)
	if err != nil {
		return err
	}
	var all verify.Material
	var file bytes.Buffer
	for index := range log.Size {
		r, err := c.client.Receipt(ctx, index)
		if err != nil {
			return err
		}
		text, err := r.Encode()
		if err != nil {
			return err
		}
		file.Write(append(text, '\n'))
		all.Receipts = append(all.Receipts, *r)
	}
	found.receipts = len(all.Receipts)
	for _, name := range slices.Concat(agents(), []entry.Principal{publisher}) {
		text, err := os.ReadFile(c.dir.receipts(name))
		if err == nil {
			err = all.Add(c.dir.receipts(name), text)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	found.held = len(all.Receipts) - found.receipts
	note := all.Receipts[found.receipts-1].Head
	newest, err := c.stage.Root.Head([]byte(note))
	if err != nil {
		return err
	}
	for _, r := range all.Receipts { // each is under a head of this log
		older, err := c.stage.Root.Head([]byte(r.Head))
		if err != nil {
			return err
		}
		proof, err := c.client.Consistency(ctx, r.Head, note)
		if err != nil {
			return err
		}
		all.Consistency = append(all.Consistency, verify.Consistency{Old: older.Size, New: newest.Size, Path: proof.Path})
	}
	report, err := c.stage.Root.Verify(all)
	if err == nil && len(report.Missing) > 0 {
		err = fmt.Errorf("%w: not everything could be checked: %s", ErrDiffers, report.Missing[0])
	}
	return errors.Join(err, write(c.dir.path("receipts.ndjson"), file.Bytes()))
}

// saveBundles fetches the bundle of each agent of a plan and writes it to a file. It verifies the
// bundle with nothing but the pinned root.
func (c *conductor) saveBundles(ctx context.Context, incident uint64, plan []member, now int64) (int, error) {
	members := map[entry.Principal]int{}
	for _, m := range plan {
		members[m.Agent]++
	}
	for name, count := range members {
		page, err := c.client.Bundle(ctx, api.BundleQuery{Incident: incident, Agent: name})
		if err != nil {
			return 0, err
		}
		v, err := page.Check(bundle.Accepted{Root: c.stage.Root}, now)
		if err != nil {
			return 0, fmt.Errorf("%w: incident %d, %s: %w", ErrDiffers, incident, name, err)
		}
		if shown := slices.DeleteFunc(v.Commands, func(m bundle.Command) bool { return m.Refused != nil }); len(shown) != count {
			return 0, fmt.Errorf("%w: incident %d: the bundle shows %s %d of %d members", ErrDiffers, incident, name, len(shown), count)
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

func (d directory) bundle(incident uint64, p entry.Principal) string {
	return d.path("bundles", fmt.Sprintf("%d-%s.json", incident, p))
}

// comparison compares the world with the log.
type comparison struct {
	dir     directory
	log     history
	members []member // of all plans
	mailed  map[entry.Ref]int
}

// compare compares the outcome of each member with the world. It also looks for effects without an
// entry, and for effects behind the fence.
func (w *comparison) compare() error {
	sent, err := w.dir.sent()
	if err != nil {
		return err
	}
	w.mailed = map[entry.Ref]int{}
	for _, m := range sent {
		if w.mailed[m.Exec]++; w.log.executions[m.Exec] == nil {
			return fmt.Errorf("%w: a mail was sent by %s, which is not in the log", ErrDiffers, m.Exec)
		}
	}
	for i := range w.members {
		m := &w.members[i]
		why, err := w.member(m)
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("%w: %s is %s, but %s", ErrDiffers, m.Exec, m.Result, why)
		}
	}
	booked, err := w.dir.bookings().booked()
	for _, name := range booked {
		if !slices.ContainsFunc(w.members, func(m member) bool { return fileName(m.Exec) == name }) {
			return fmt.Errorf("%w: a booking of %s stands, which the log does not say", ErrDiffers, name)
		}
	}
	if page, failed := namesIn(string(w.dir.files(publisher, offer))); failed != nil || len(page) > 0 {
		err = errors.Join(err, failed, fmt.Errorf("%w: the publisher published a fenced output", ErrDiffers))
	}
	return err
}

// member returns the difference between a member's outcome and the world; empty: there is none.
func (w *comparison) member(m *member) (why string, err error) {
	switch m.Result {
	case entry.Restored:
		secret, err := w.dir.secret(m.Agent)
		if err != nil {
			return "", err
		}
		state, err := w.dir.files(m.Agent, w.log.executions[m.Exec].Wid).snapshot()
		if c := w.log.checkpoints[m.Checkpoint]; c == nil || stateDigest(secret, state) != c.Digest {
			why = "the state of its line is not that of the checkpoint " + string(m.Checkpoint)
		}
		return why, err
	case entry.Compensated: // once, under the key whose digest the compensation logged before it acted
		found, err := w.dir.bookings().cancelled(m.Exec)
		if comp := w.log.comps[m.Exec]; comp == nil || len(found) != 1 || entry.DigestOf([]byte(found[0])) != comp.IdempotencyKey {
			why = fmt.Sprintf("it was cancelled %d times, or under another key than was logged", len(found))
		}
		return why, err
	case entry.ResultIrrevocable:
		if w.mailed[m.Exec] != 1 {
			why = fmt.Sprintf("%d mails were sent for it, want 1", w.mailed[m.Exec])
		}
		return why, nil
	case entry.NotExecuted:
		if _, err := os.Stat(w.dir.queued(m.Exec)); err == nil || w.mailed[m.Exec] != 0 {
			why = "its mail is in the queue, or was sent"
		}
		return why, nil
	}
	return "no such outcome was to be expected", nil
}

// prove runs the commands that check the demo, and prints the records, the checks and the commands.
// No process of the demo runs any more.
func (c *conductor) prove(ctx context.Context, found *findings) error {
	incidents := slices.Sorted(maps.Keys(c.records))
	then := time.UnixMilli(found.at).UTC().Format(time.RFC3339) // later the decision has expired
	commands := [][]string{
		{"verify", c.dir.path("receipts.ndjson")},
		{"verify", c.dir.bundle(slices.Max(incidents), booker), "--at", then},
		{"log", "audit", "--data", c.dir.path("ledger")},
	}
	for _, incident := range incidents {
		commands = append(commands, []string{"incident", "show", fmt.Sprint(incident), "--data", c.dir.path("ledger")})
	}
	var tried []string
	for i, args := range commands {
		code, says := 0, ""
		if i > 2 {
			code = exitOf(c.records[incidents[i-3]])
		}
		if code != 0 {
			says = fmt.Sprintf("   # exit code %d: not everything could be undone", code)
		}
		args = append(args, "--home", c.dir.path("home"))
		if _, err := c.troupe.run(ctx, code, args...); err != nil {
			return fmt.Errorf("%w: %w", ErrDiffers, err)
		}
		tried = append(tried, shellLine(append([]string{os.Args[0]}, args...))+says)
	}
	for _, incident := range incidents {
		c.shown.say(line{Who: "record", Kind: "record", Incident: incident, Text: record(c.records[incident]) + " (workflow " + string(c.incidents[incident]) + ")"})
	}
	for _, text := range []string{
		fmt.Sprintf("every receipt: %d of the log's entries, and %d that the agents were given as they worked", found.receipts, found.held),
		fmt.Sprintf("every command: %d bundles that tell an agent what to undo and why, by AGT-1 to AGT-3", found.bundles),
		fmt.Sprintf("the log: %d entries under the signed tree head, by REG-1 to REG-9", found.receipts),
		fmt.Sprintf("the world: files, bookings, queue and mail of %d undone executions match the records", found.effects),
	} {
		c.shown.say(line{Who: "checked", Kind: "checked", Text: text})
	}
	for _, command := range tried {
		c.shown.say(line{Who: "try", Kind: "command", Text: command})
	}
	c.shown.say(line{Who: "look", Kind: "command", Text: shellLine([]string{os.Args[0], "console", "--data", c.dir.path("ledger"), "--home", c.dir.path("home")}) + "   # all of this as pages"})
	return c.shown.err
}

// shellLine returns arguments in the syntax of a shell.
func shellLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		if quoted[i] = arg; strings.Trim(arg, "-_./=,:@%+abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" || arg == "" {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
