package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/ledger"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// finding is what the doctor says of one thing.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or fail
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

func (a *app) doctorCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine's side of the ledger",
		Long: "Check what commands on this machine depend on: profile, keys and their permissions, server, tree head and its\n" +
			"history, clock, disk space; with --data also the anchor. Each line says ok, warn or fail, and what to do.",
		Example: "  arl doctor",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), &o) },
	}
	o.register(cmd.Flags())
	cmd.Flags().StringVar(&o.data, "data", "", "data directory to look at, of a running or a stopped ledger")
	cmd.Flags().StringVar(&o.anchor, "anchor", "", "anchor file of --data (default: the directory's name with .anchor)")
	return cmd
}

// doctor makes every check that is possible, and fails if one of them does.
func (a *app) doctor(ctx context.Context, o *logOptions) error {
	d := &diagnosis{app: a, list: a.newList("CHECK", "STATE", "DETAIL", "REMEDY")}
	d.checkHome()
	d.checkSpace("home", d.home)
	if o.data != "" {
		d.checkData(o)
	}
	p := d.checkProfile(o)
	d.checkServer(ctx, o)
	if p != nil {
		for _, key := range p.Keys {
			d.checkKey(key)
		}
	}
	if d.node != nil {
		d.checkCoordinatorKey()
		d.checkInForce()
	}
	return cmp.Or(d.broken, d.list.close(), d.verdict())
}

// diagnosis is one visit to the doctor.
type diagnosis struct {
	app    *app
	list   *list
	home   string
	node   *node         // of the data directory, not opened; nil: none was given
	chain  *verify.Chain // of the server; nil: it did not tell
	origin string        // of the chain
	failed int
	first  error // what the first failure came from
	broken error // of the output
}

func (d *diagnosis) say(check, state, detail, remedy string) {
	if state == stateOK {
		remedy = ""
	}
	d.broken = cmp.Or(d.broken, d.list.add(finding{check, state, detail, remedy}, check, state, detail, remedy))
}

func (d *diagnosis) fail(check string, err error, remedy string) {
	d.failed++
	d.first = cmp.Or(d.first, err)
	d.say(check, stateFail, err.Error(), remedy)
}

func (d *diagnosis) verdict() error {
	if d.failed == 0 {
		return nil
	}
	return withExit(exitCode(d.first), fmt.Errorf("%d of the checks failed", d.failed))
}

func (d *diagnosis) checkHome() {
	var err error
	if d.home, err = d.app.homeDir(); err != nil {
		d.fail("home", err, "set ARL_HOME")
		return
	}
	info, err := os.Stat(filepath.Join(d.home, "keys"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.say("home", stateWarn, d.home+" has no keys", "arl serve makes an operator's key, arl key generate an agent's")
	case err != nil:
		d.fail("home", err, "let the directory be read by its owner")
	case keys.OthersMay(info.Mode(), runtime.GOOS):
		d.say("home", stateWarn, fmt.Sprintf("others may look into %s (mode %04o)", filepath.Join(d.home, "keys"), info.Mode().Perm()), "chmod 700")
	default:
		d.say("home", stateOK, d.home, "")
	}
}

// spaceMin is the free disk space in bytes below which the doctor warns.
const spaceMin = 1 << 30

func (d *diagnosis) checkSpace(name, dir string) {
	for !isThere(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir) // it is not there yet
	}
	free, err := ledger.FreeSpace(dir)
	if err != nil {
		d.say("space for "+name, stateWarn, err.Error(), "look how much disk space is free: a ledger refuses entries below its reserve")
		return
	}
	if free < spaceMin {
		d.say("space for "+name, stateWarn, fmt.Sprintf("%d MiB free at %s", free>>20, dir), "free disk space: a ledger refuses entries below its reserve")
		return
	}
	d.say("space for "+name, stateOK, fmt.Sprintf("%d MiB free at %s", free>>20, dir), "")
}

func (d *diagnosis) checkData(o *logOptions) {
	d.checkSpace("data", o.data)
	n := &node{dir: o.data, anchor: o.anchor}
	if err := n.findAnchor(); err != nil {
		d.fail("anchor", err, "pass what arl serve was given")
		return
	}
	err := n.loadKeys(nodeOptions{})
	switch {
	case errors.Is(err, keys.ErrPassphrase):
		d.say("ledger keys", stateOK, n.keysDir()+", with a passphrase", "")
	case err != nil:
		d.fail("ledger keys", err, "pass the directory that arl serve --data was given")
		return
	default:
		d.say("ledger keys", stateOK, n.keysDir(), "")
	}
	d.node = n
	if _, err := os.Stat(n.anchor); err != nil {
		d.fail("anchor", err, "find the file again; only if it is lost for good, start once with --accept-anchor")
		return
	}
	d.say("anchor", stateOK, n.anchor, "")
}

// checkCoordinatorKey is of the data directory: with a key that does not count
// its ledger does not start.
func (d *diagnosis) checkCoordinatorKey() {
	const name = "coordinator's key"
	path := d.node.coordinatorKey()
	signer, err := keys.Load(path, nil)
	switch {
	case errors.Is(err, keys.ErrPassphrase):
		d.say(name, stateOK, path+", with a passphrase", "")
	case err != nil:
		d.fail(name, withExit(exitConfig, err), d.node.coordinatorRemedy())
	case d.chain == nil || d.node.origin != d.origin:
		d.say(name, stateWarn, path+", not compared with the log", "ask while this ledger runs, or run arl log fsck --data "+d.node.dir)
	default:
		if err := coordinatorCounts(d.chain, signer.Public().KeyID()); err != nil {
			d.fail(name, withExit(exitConfig, fmt.Errorf("%s: %w", path, err)), d.node.coordinatorRemedy())
			return
		}
		d.say(name, stateOK, path+", "+signer.Public().KeyID(), "")
	}
}

// checkInForce compares the ledger's keys with those that the policy in force
// names (TRU-5): without one of them the ledger does not start.
func (d *diagnosis) checkInForce() {
	if len(d.node.keys) == 0 || d.chain == nil || d.node.origin != d.origin {
		return
	}
	if err := d.node.checkLedgerKeys(d.chain); err != nil {
		d.fail("signing keys", err, "bring them back before the next start")
		return
	}
	signing := len(d.node.keys) - d.node.inForce(d.chain)
	d.say("signing keys", stateOK, fmt.Sprintf("%d of %d sign", signing, len(d.node.keys)), "")
}

func (d *diagnosis) checkProfile(o *logOptions) *profile {
	if o.root != "" {
		if _, err := d.app.readRoot(o.root); err != nil {
			d.fail("root", err, "obtain the root file again, from somebody you trust")
			return nil
		}
		d.say("root", stateOK, o.root, "")
		return nil
	}
	p, err := d.app.chooseProfile(o.profile)
	if err != nil {
		d.fail("profile", err, "start a ledger here with arl serve, or pass --url and --root")
		return nil
	}
	d.say("profile", stateOK, p.Name+", origin "+p.Root.Origin, "")
	return p
}

func (d *diagnosis) checkKey(key namedKey) {
	name := "key of " + string(key.Principal)
	signer, err := keys.Load(key.Path, nil)
	switch {
	case errors.Is(err, keys.ErrPassphrase):
		d.say(name, stateOK, key.Path+", with a passphrase", "")
	case err != nil:
		d.fail(name, err, "restore the file from a backup, or enrol a new key; chmod 600 where others may read it")
	default:
		d.checkCounts(name, key, signer.Public().KeyID())
	}
}

// checkCounts looks a key up in the log, where that can be asked.
func (d *diagnosis) checkCounts(name string, key namedKey, keyID string) {
	if d.chain != nil {
		owner, counts := d.chain.Owner(keyID)
		remedy := fmt.Sprintf("move it away, make another with arl key generate --out %s, and let it in with arl agent enrol", key.Path)
		switch {
		case owner != key.Principal:
			d.say(name, stateWarn, fmt.Sprintf("%s, %s, is not enrolled for %s", key.Path, keyID, key.Principal), remedy)
			return
		case !counts:
			d.say(name, stateWarn, fmt.Sprintf("%s, %s, does not count any more", key.Path, keyID), remedy)
			return
		}
	}
	d.say(name, stateOK, key.Path+", "+keyID, "")
}

func (d *diagnosis) checkServer(ctx context.Context, o *logOptions) {
	reached := false
	err := d.app.withConnection(ctx, &o.target, func(c *connection) error {
		info, err := c.client.Log(ctx)
		if err != nil {
			return err
		}
		reached = true
		d.say("server", stateOK, fmt.Sprintf("%s, %d entries", c.url, info.Size), "")
		d.checkReady(ctx, c)
		d.checkClock(c)
		d.checkHead(ctx, c)
		if d.chain, err = c.chain(ctx); err != nil {
			d.fail("policy chain", err, "do not trust this server: keep what it said, and ask its operator")
		}
		d.origin = c.root.Origin
		return nil
	})
	switch {
	case err != nil && reached:
		d.fail("accepted head", err, "let ARL_HOME be written by its owner")
	case err != nil:
		d.fail("server", err, "start it with arl serve, or pass --profile, or --url and --root")
	}
}

func (d *diagnosis) checkReady(ctx context.Context, c *connection) {
	if err := c.client.Ready(ctx); err != nil {
		d.fail("ready", err, "entries are refused now; reading goes on")
		return
	}
	d.say("ready", stateOK, "takes entries", "")
}

// skewMax is a difference of the clocks that is worth a warning: REG-6 refuses
// entries beyond 300 s by default.
const skewMax = time.Minute

func (d *diagnosis) checkClock(c *connection) {
	skew := c.clock.skew.Round(time.Second)
	switch {
	case !c.clock.seen:
		d.say("clock", stateWarn, "the server's answers have no date", "compare the clocks by hand")
	case skew.Abs() > skewMax:
		d.say("clock", stateWarn, fmt.Sprintf("the server's is %v ahead of this one", skew), "set the clocks right: entries too far off are refused (REG-6)")
	default:
		d.say("clock", stateOK, fmt.Sprintf("differs from the server's by less than %v", skewMax), "")
	}
}

func (d *diagnosis) checkHead(ctx context.Context, c *connection) {
	head, err := c.head(ctx)
	if err != nil {
		d.fail("tree head", err, "do not trust this server: keep what it said, and ask its operator")
		return
	}
	detail := fmt.Sprintf("size %d, signed by the pinned keys", head.Size)
	if c.before != nil {
		detail += fmt.Sprintf(", continues size %d", c.before.Size)
	}
	d.say("tree head", stateOK, detail, "")
}
