// Package doctor checks the parts that commands on a machine depend on: profile, keys and their
// permissions, server, tree head, clock, disk space and the data directory of a ledger.
package doctor

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

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// Examine makes every check that is possible, and passes each finding to tell. It tries the keys of
// the profile, of the data directory, and others: files or URIs. verdict is an error if a check
// fails. err is the first error that tell returned.
func Examine(ctx context.Context, machine *access.Machine, o *access.Where, others []string, tell func(words.Finding) error) (verdict, err error) {
	d := &diagnosis{machine: machine, tell: tell}
	d.checkHome()
	d.checkSpace("home", d.home)
	if o.Data != "" {
		d.checkData(o)
	}
	p := d.checkProfile(o)
	d.checkServer(ctx, o)
	if p != nil {
		for _, key := range p.Keys {
			d.checkKey(key)
		}
	}
	for _, path := range others {
		d.checkKey(trust.NamedKey{Path: path})
	}
	if d.node != nil {
		d.checkLedgerKeys()
		d.checkCoordinatorKey()
		d.checkInForce()
	}
	return d.verdict(), d.broken
}

// diagnosis is one run of the checks.
type diagnosis struct {
	machine *access.Machine
	tell    func(words.Finding) error
	home    string
	node    *node.Node    // of the data directory, not opened; nil: none
	chain   *verify.Chain // of the server; nil: none was received
	origin  string        // of the chain
	failed  int
	first   error // cause of the first failure
	broken  error // of the output
}

// find tells findings.
func (d *diagnosis) find(list ...words.Finding) {
	for _, f := range list {
		d.say(f.Check, f.State, f.Detail, f.Remedy)
	}
}

func (d *diagnosis) say(check, state, detail, remedy string) {
	if state == words.FindingOK {
		remedy = ""
	}
	d.broken = cmp.Or(d.broken, d.tell(words.Finding{Check: check, State: state, Detail: detail, Remedy: remedy}))
}

// count counts a failed check; err nil: the check has not failed.
func (d *diagnosis) count(err error) {
	if err != nil {
		d.failed++
		d.first = cmp.Or(d.first, err)
	}
}

func (d *diagnosis) fail(check string, err error, remedy string) {
	d.count(err)
	d.say(check, words.FindingFail, err.Error(), remedy)
}

func (d *diagnosis) verdict() error {
	if d.failed == 0 {
		return nil
	}
	return exit.With(exit.Code(d.first), fmt.Errorf("%d of the checks failed", d.failed))
}

func (d *diagnosis) checkHome() {
	var err error
	if d.home, err = d.machine.Trust.Path(); err != nil {
		d.fail("home", err, "set ARL_HOME")
		return
	}
	info, err := os.Stat(filepath.Join(d.home, "keys"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.say("home", words.FindingWarn, d.home+" has no keys", "arl serve makes an operator's key, arl key generate an agent's")
	case err != nil:
		d.fail("home", err, "let only the owner read the directory")
	case keys.OthersMay(info.Mode(), runtime.GOOS):
		d.say("home", words.FindingWarn, fmt.Sprintf("other users can read %s (mode %04o)", filepath.Join(d.home, "keys"), info.Mode().Perm()), "chmod 700")
	default:
		d.say("home", words.FindingOK, d.home, "")
	}
}

// spaceMin is the free disk space in bytes below which the doctor warns.
const spaceMin = 1 << 30

func (d *diagnosis) checkSpace(name, dir string) {
	for _, err := os.Lstat(dir); err != nil && dir != filepath.Dir(dir); _, err = os.Lstat(dir) {
		dir = filepath.Dir(dir) // dir does not exist yet
	}
	free, err := disk.Free(dir)
	d.find(words.FindSpace("space for "+name, "at "+dir, free, spaceMin, err))
}

func (d *diagnosis) checkData(o *access.Where) {
	d.checkSpace("data", o.Data)
	n, err := node.Look(o.Data, o.Anchor)
	switch {
	case n == nil:
		d.fail("anchor", err, "pass the anchor file of arl serve")
		return
	case errors.Is(err, keys.ErrPassphrase):
		d.say("ledger keys", words.FindingOK, n.KeysDir()+", with a passphrase", "")
	case err != nil:
		d.fail("ledger keys", err, "pass the directory of arl serve --data")
		return
	default:
		d.say("ledger keys", words.FindingOK, n.KeysDir(), "")
	}
	d.node = n
	if _, err := os.Stat(n.Anchor); err != nil {
		d.fail("anchor", err, "find the file; if the file is lost for good, start the ledger once with --accept-anchor")
		return
	}
	d.say("anchor", words.FindingOK, n.Anchor, "")
}

// checkCoordinatorKey checks the coordinator's key in the data directory. A ledger whose
// coordinator's key does not count does not start.
func (d *diagnosis) checkCoordinatorKey() {
	const name = "coordinator's key"
	path := d.node.CoordinatorKey()
	signer, err := keys.Load(path, nil)
	switch {
	case errors.Is(err, keys.ErrPassphrase):
		d.say(name, words.FindingOK, path+", with a passphrase", "")
	case err != nil:
		d.fail(name, exit.With(exit.Config, err), d.node.CoordinatorRemedy())
	case !d.signs(name, signer):
	case d.chain == nil || d.node.Origin != d.origin:
		d.say(name, words.FindingWarn, path+", and not compared with the log", "run arl doctor again while this ledger runs, or run arl log fsck --data "+d.node.Dir)
	default:
		if err := node.CoordinatorCounts(d.chain, signer.Public().KeyID()); err != nil {
			d.fail(name, exit.With(exit.Config, fmt.Errorf("%s: %w", path, err)), d.node.CoordinatorRemedy())
			return
		}
		d.say(name, words.FindingOK, path+", "+signer.Public().KeyID(), "")
	}
}

// signs reports whether a key signs. If it does not, it is a finding.
func (d *diagnosis) signs(name string, signer *keys.Signer) bool {
	err := signer.Try()
	if err != nil {
		d.fail(name, err, exit.Remedy(err))
	}
	return err == nil
}

// checkLedgerKeys has each key that signs tree heads in a KMS sign something that says nothing.
func (d *diagnosis) checkLedgerKeys() {
	for _, k := range d.node.Keys {
		if k.URI == "" {
			continue
		}
		if err := k.Try(); err != nil {
			d.fail("ledger's key", err, exit.Remedy(err))
			continue
		}
		d.say("ledger's key", words.FindingOK, k.URI+" signs for "+k.VerifierKeys[0], "")
	}
}

// checkInForce compares the ledger's keys with the keys that the policy in force names (TRU-5).
// Without one of them the ledger does not start.
func (d *diagnosis) checkInForce() {
	if len(d.node.Keys) == 0 || d.chain == nil || d.node.Origin != d.origin {
		return
	}
	if err := d.node.CheckLedgerKeys(d.chain); err != nil {
		d.fail("signing keys", err, "restore the keys before the next start")
		return
	}
	signing := len(d.node.Keys) - d.node.InForce(d.chain)
	d.say("signing keys", words.FindingOK, fmt.Sprintf("%d of %d sign", signing, len(d.node.Keys)), "")
}

func (d *diagnosis) checkProfile(o *access.Where) *trust.Profile {
	if o.Root != "" {
		if _, err := d.machine.ReadRoot(o.Root); err != nil {
			d.fail("root", err, "get the root file from a trusted person again")
			return nil
		}
		d.say("root", words.FindingOK, o.Root, "")
		return nil
	}
	p, err := d.machine.Trust.Select(o.Profile)
	if err != nil {
		d.fail("profile", err, "start a ledger here with arl serve, or pass --url and --root")
		return nil
	}
	d.say("profile", words.FindingOK, p.Name+", origin "+p.Root.Origin, "")
	return p
}

func (d *diagnosis) checkKey(key trust.NamedKey) {
	name := "key of " + string(key.Principal)
	if key.Principal == "" {
		name = "key"
	}
	signer, err := keys.Load(key.Path, nil)
	switch {
	case errors.Is(err, keys.ErrPassphrase):
		d.say(name, words.FindingOK, key.Path+", with a passphrase", "")
	case err != nil:
		d.fail(name, err, cmp.Or(exit.Remedy(err), "restore the file from a backup, or enrol a new key; run chmod 600 if other users can read the file"))
	case !d.signs(name, signer):
	default:
		d.checkCounts(name, key, signer.Public().KeyID())
	}
}

// checkCounts looks a key up in the log if the server gave its chain.
func (d *diagnosis) checkCounts(name string, key trust.NamedKey, keyID string) {
	if d.chain != nil {
		owner, counts := d.chain.Owner(keyID)
		remedy := fmt.Sprintf("move the file away, make another key with arl key generate --out %s, and enrol it with arl agent enrol", key.Path)
		switch {
		case keys.IsURI(key.Path) && owner == "":
			remedy = "arl agent enrol --principal PRINCIPAL --domain DOMAIN --key " + key.Path
		case keys.IsURI(key.Path): // a key is enrolled once
			remedy = "make another key in the KMS, and enrol it: arl agent enrol --principal PRINCIPAL --domain DOMAIN --key URI"
		}
		switch {
		case key.Principal == "" && counts:
			d.say(name, words.FindingOK, fmt.Sprintf("%s, %s, signs for %s", key.Path, keyID, owner), "")
			return
		case owner == "":
			d.say(name, words.FindingWarn, fmt.Sprintf("%s, %s, is not enrolled", key.Path, keyID), remedy)
			return
		case key.Principal != "" && owner != key.Principal:
			d.say(name, words.FindingWarn, fmt.Sprintf("%s, %s, is not enrolled for %s", key.Path, keyID, key.Principal), remedy)
			return
		case !counts:
			d.say(name, words.FindingWarn, fmt.Sprintf("%s, %s, is no longer valid", key.Path, keyID), remedy)
			return
		}
	}
	d.say(name, words.FindingOK, key.Path+", "+keyID, "")
}

func (d *diagnosis) checkServer(ctx context.Context, o *access.Where) {
	reached := false
	err := d.machine.WithConnection(ctx, &o.Target, func(c *access.Connection) error {
		info, err := c.Client.Log(ctx)
		if err != nil {
			return err
		}
		reached = true
		d.say("server", words.FindingOK, c.URL+", "+words.Counted(info.Size, "entry"), "")
		d.checkReady(ctx, c)
		d.checkClock(c)
		d.checkHead(ctx, c)
		d.find(words.FindWitnesses(info.Witnessed)...)
		if d.chain, err = c.Chain(ctx); err != nil {
			d.fail("policy chain", err, "do not trust this server: keep its answers, and ask its operator")
		}
		d.origin = c.Root.Origin
		required := false
		if d.chain != nil {
			policy, _ := d.chain.Policy()
			required = policy.IndexRequired()
		}
		d.checkIndex(info.Index, required)
		d.checkWork(ctx, c, o.Data != "")
		return nil
	})
	switch {
	case err != nil && reached:
		d.fail("accepted head", err, "let only the owner write to ARL_HOME")
	case err != nil:
		d.fail("server", err, "start the ledger with arl serve, or pass --profile, or --url and --root")
	}
}

func (d *diagnosis) checkReady(ctx context.Context, c *access.Connection) {
	err := c.Client.Ready(ctx)
	d.count(err)
	d.find(words.FindReady(err))
}

// checkWork tells what the ledger's metrics say. local says that the disk and the anchor of the
// ledger are on this machine, and were looked at.
func (d *diagnosis) checkWork(ctx context.Context, c *access.Connection, local bool) {
	text, err := c.Client.Metrics(ctx)
	var found []words.Finding
	if err == nil {
		found, err = metrics.Read(text, time.Now())
	}
	if err != nil {
		d.say("submissions", words.FindingWarn, err.Error(), "a proxy may keep the metrics from this machine: ask the operator of the ledger")
	}
	for _, f := range found {
		if !local || f.Check != "space for data" && f.Check != "anchor" {
			d.find(f)
		}
	}
}

// skewMax is a difference of the clocks that is worth a warning: REG-6 refuses
// entries beyond 300 s by default.
const skewMax = time.Minute

func (d *diagnosis) checkClock(c *access.Connection) {
	skew, seen := c.Clock.Skew()
	skew = skew.Round(time.Second)
	switch {
	case !seen:
		d.say("clock", words.FindingWarn, "the answers of the server have no date", "compare this clock with the server's clock")
	case skew.Abs() > skewMax:
		d.say("clock", words.FindingWarn, fmt.Sprintf("the server's clock is %v ahead of this clock", skew), "correct the clocks: the ledger refuses entries whose time is too far off (REG-6)")
	default:
		d.say("clock", words.FindingOK, fmt.Sprintf("differs from the server's clock by less than %v", skewMax), "")
	}
}

func (d *diagnosis) checkHead(ctx context.Context, c *access.Connection) {
	head, err := c.Head(ctx)
	if err != nil {
		d.fail("tree head", err, "do not trust this server: keep its answers, and ask its operator")
		return
	}
	detail := fmt.Sprintf("size %d, signed by the pinned keys", head.Size)
	if c.Before != nil {
		detail += fmt.Sprintf(", continues size %d", c.Before.Size)
	}
	d.say("tree head", words.FindingOK, detail, "")
}

// checkIndex shows the server's statement about the index. required says that the policy in force
// demands an index.
func (d *diagnosis) checkIndex(x *api.IndexStatus, required bool) {
	switch {
	case x == nil && required:
		d.fail("index", exit.With(exit.Config, errors.New("the policy says index.required, and the ledger keeps no index: agents refuse every bundle")),
			"start the ledger with arl serve --index")
	case x == nil:
	case x.Stopped != "" && required:
		d.fail("index", exit.With(exit.Inconsistent, fmt.Errorf("the policy says index.required, and the index has stopped: %s", x.Stopped)), indexRemedy)
	case x.Stopped != "":
		d.say("index", words.FindingWarn, "stopped: "+x.Stopped, indexRemedy)
	case x.Lag > complete.TailMax:
		d.say("index", words.FindingWarn, fmt.Sprintf("%s behind the log: histories and bundles wait", words.Counted(x.Lag, "entry")),
			"wait until the index is built; if the index makes no progress, read the server's log")
	default:
		d.say("index", words.FindingOK, fmt.Sprintf("size %d, %s behind the log", x.Size, words.Counted(x.Lag, "entry")), "")
	}
}

const indexRemedy = "read the server's log; stop the ledger, and run arl log audit --data DIR; " +
	"if the log is sound, delete DIR/index: the next start builds the index again"
