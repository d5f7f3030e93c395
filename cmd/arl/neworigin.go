package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"recoveryledger/ledger"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// newOriginOptions are the flags of arl ledger new-origin.
type newOriginOptions struct {
	data, origin, anchor string
	abandon, encrypt     bool
}

func (a *app) ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ledger",
		Short:   "What becomes of a ledger as a whole",
		Example: "  arl ledger new-origin --data ./data",
	}
	cmd.AddCommand(a.newOriginCommand())
	return cmd
}

func (a *app) newOriginCommand() *cobra.Command {
	var o newOriginOptions
	cmd := &cobra.Command{
		Use:   "new-origin",
		Short: "Continue a ledger that lost entries, under a new origin",
		Long: "Continue a ledger whose acknowledged entries are lost for good. The data directory gets new keys of a new origin;\n" +
			"what is left of the old ledger is moved to DIR/former, and its profile to former/NAME, so that old receipts can\n" +
			"still be verified. The next arl serve begins a new log, whose genesis policy names the old ledger. Agents are\n" +
			"enrolled again, and everyone who pinned the old root pins the new one.\n\n" +
			"Restore what can be restored first: a copy of the data directory, or an export with arl log import. Where there is\n" +
			"a database, its entries are given up only with --abandon. A command that was interrupted is run again.",
		Example: "  arl ledger new-origin --data ./data",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.newOrigin(&o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "data directory of the ledger (mandatory)")
	flags.StringVar(&o.origin, "origin", "", "new name of the ledger (default: made up, unique)")
	flags.StringVar(&o.anchor, "anchor", "", "anchor file of the ledger (default: the data directory's name with .anchor)")
	flags.BoolVar(&o.abandon, "abandon", false, "give up the entries in the database that is there")
	encryptFlag(flags, &o.encrypt, "the new keys")
	_ = cmd.MarkFlagRequired("data") // the flag exists
	return cmd
}

// The names in a data directory that new-origin makes.
const (
	predecessorFile = "predecessor.json" // beside the keys: what the genesis says of the old ledger
	comingKeys      = "keys.coming"      // the new keys, until the old ones have made room
	formerDir       = "former"           // what is left of old ledgers, by profile name
)

// newOriginReport is what arl ledger new-origin prints.
type newOriginReport struct {
	Origin      string            `json:"origin"`
	Predecessor entry.Predecessor `json:"predecessor"`
	Former      string            `json:"former"`            // directory with what is left of the old ledger
	Profile     string            `json:"profile,omitempty"` // name of the old profile from now on
}

// newOrigin is a sequence of steps each of which a crash may follow: another run
// finds out by what is there how far the one before came.
//
//  1. DIR/keys.coming has the new keys and the link to the old ledger, durably
//  2. the database, the evidence, the anchor and, last, the old keys are in DIR/former/NAME
//  3. keys.coming becomes DIR/keys
//  4. the old profile becomes former/NAME
func (a *app) newOrigin(o *newOriginOptions) error {
	if err := ledger.CheckSystem(runtime.GOOS); err != nil {
		return err
	}
	if o.origin != "" {
		if err := keys.CheckOrigin(o.origin); err != nil {
			return usage("--origin: %w", err)
		}
	}
	n := &node{dir: o.data, anchor: o.anchor}
	if err := n.findAnchor(); err != nil {
		return err
	}
	coming := filepath.Join(o.data, comingKeys)
	link, err := findPredecessor(n, coming)
	if errors.Is(err, fs.ErrNotExist) {
		link, err = a.prepareNewOrigin(n, o)
	}
	if err != nil {
		return err
	}
	former := filepath.Join(o.data, formerDir, profileName(link.Origin))
	if err := n.moveFormer(coming, former); err != nil {
		return withExit(exitIO, err)
	}
	origin, err := keys.UnusedOrigin(n.keysDir())
	if err != nil {
		return err
	}
	profile, err := a.retireProfile(link.Origin, origin)
	if err != nil {
		return err
	}
	return a.printNewOrigin(o, &newOriginReport{Origin: origin, Predecessor: *link, Former: former, Profile: profile})
}

// findPredecessor returns the link of a change that is under way, or that is done
// and whose log has not begun; fs.ErrNotExist if there is none.
func findPredecessor(n *node, coming string) (*entry.Predecessor, error) {
	link, err := readPredecessor(coming)
	if !errors.Is(err, fs.ErrNotExist) {
		return link, err
	}
	if _, err := keys.UnusedOrigin(n.keysDir()); err != nil {
		return nil, err // the change, if there was one, is long ago
	}
	return readPredecessor(n.keysDir())
}

// prepareNewOrigin makes the new keys beside the old ones, and the link.
func (a *app) prepareNewOrigin(n *node, o *newOriginOptions) (*entry.Predecessor, error) {
	old, err := keys.LoadLedger(n.keysDir(), once(a.passphrase))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withExit(exitNotFound, fmt.Errorf("%s has no keys of a ledger: arl serve --data %s begins a new one", n.dir, n.dir))
	}
	if err != nil {
		return nil, unusableLedgerKeys(n.keysDir(), err)
	}
	if old[0].Unused {
		return nil, withExit(exitConflict, fmt.Errorf("the keys of %s have signed nothing, so that nothing is lost: arl serve --data %s begins the log", n.dir, n.dir))
	}
	switch entries, err := os.ReadDir(n.database()); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case len(entries) > 0 && !o.abandon:
		return nil, withExit(exitConflict, fmt.Errorf("%s is there: arl serve goes on with it if it is whole; if it is not, and nothing newer can be "+
			"restored, pass --abandon, which keeps it in %s", n.database(), filepath.Join(n.dir, formerDir)))
	case len(entries) > 0:
		if err := ledger.NotInUse(n.database()); err != nil {
			return nil, err
		}
	}
	if former := filepath.Join(n.dir, formerDir, profileName(old[0].Origin)); isThere(former) {
		return nil, withExit(exitConflict, fmt.Errorf("%s is there: these keys were replaced before: move it away first", former))
	}
	origin := newOrigin(o.origin)
	if origin == old[0].Origin {
		return nil, usage("--origin %s is the ledger's origin: choose another", origin)
	}
	if err := a.refuseKnown(origin); err != nil {
		return nil, err
	}
	link, err := a.predecessor(n, old)
	if err != nil {
		return nil, err
	}
	return link, withExit(exitIO, writeComing(filepath.Join(n.dir, comingKeys), origin, link, once(a.forNewKeys(o.encrypt))))
}

// predecessor is what is known of the old ledger: by its keys, by this machine, and
// by the anchor.
func (a *app) predecessor(n *node, old []*keys.Ledger) (*entry.Predecessor, error) {
	link := &entry.Predecessor{Origin: old[0].Origin}
	for _, k := range old {
		link.LedgerKeys = append(link.LedgerKeys, k.VerifierKeys[:]...)
	}
	if head, err := ledger.Anchored(n.anchor, link.Origin); err == nil {
		link.Head = &head
	}
	p, err := a.profileOf(link.Origin)
	if errors.Is(err, fs.ErrNotExist) {
		return link, nil
	}
	if err != nil {
		return nil, err
	}
	link.Genesis = &p.Root.Genesis
	seen, err := a.loadHead(p.Root)
	if err == nil && seen != nil && (link.Head == nil || seen.Size > link.Head.Size) {
		link.Head = &seen.Head
	}
	return link, err
}

// writeComing makes the directory of the new keys: whole, or not there.
func writeComing(coming, origin string, link *entry.Predecessor, passphrase keys.Passphrase) error {
	making := coming + ".new"
	if err := errors.Join(os.RemoveAll(making), os.Mkdir(making, 0o700)); err != nil {
		return err
	}
	content, err := json.Marshal(link, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if _, err := keys.GenerateLedger(making, origin, passphrase); err != nil {
		return err
	}
	if err := durable.Write(filepath.Join(making, predecessorFile), append(content, '\n'), 0o600); err != nil {
		return err
	}
	return durable.Rename(making, coming) // all in it is durable: under its name, the directory is whole
}

// moveFormer moves what is left of the old ledger out of the way, the keys last,
// and the new keys to their place.
func (n *node) moveFormer(coming, former string) error {
	if !isThere(coming) {
		return nil // all is moved
	}
	if err := os.MkdirAll(former, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"db", "db.import", "evidence.ndjson"} {
		if err := moveIfThere(filepath.Join(n.dir, name), filepath.Join(former, name)); err != nil {
			return err
		}
	}
	if err := moveAnchor(n.anchor, filepath.Join(former, "anchor")); err != nil {
		return err
	}
	if !isThere(filepath.Join(former, "keys")) {
		if err := os.Rename(n.keysDir(), filepath.Join(former, "keys")); err != nil {
			return err
		}
	}
	if err := errors.Join(durable.SyncDir(former), durable.SyncDir(filepath.Dir(former))); err != nil {
		return err // the new keys come only where the former ones are kept
	}
	return durable.Rename(coming, n.keysDir())
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// moveIfThere renames what an interrupted run has not moved yet.
func moveIfThere(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// moveAnchor copies the anchor, which may lie on another file system, and removes it.
func moveAnchor(from, to string) error {
	content, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = durable.Write(to, content, 0o600)
	}
	if err != nil {
		return err
	}
	return durable.Remove(from)
}

// retireProfile moves the profile of an origin where no command takes it for the
// only one. It is still found by its name, former/NAME. Who had chosen it chooses the
// one that arl serve is about to make.
func (a *app) retireProfile(origin, successor string) (string, error) {
	home, err := a.homeDir()
	if err != nil {
		return "", err
	}
	name := profileName(origin)
	from, to := filepath.Join(home, "profiles", name+".json"), filepath.Join(home, "profiles", formerDir, name+".json")
	switch {
	case !isThere(from) && isThere(to):
		return formerDir + "/" + name, nil
	case !isThere(from):
		return "", nil // this machine knows nothing of the ledger
	}
	choice, err := a.readChoice()
	if err == nil && choice == name {
		err = durable.Write(filepath.Join(home, "profiles", "chosen"), []byte(profileName(successor)+"\n"), 0o600)
	}
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700)); err == nil {
		err = durable.Rename(from, to)
	}
	if err != nil {
		return "", withExit(exitIO, err)
	}
	return formerDir + "/" + name, nil
}

// readPredecessor reads the link beside keys; fs.ErrNotExist if there is none.
func readPredecessor(dir string) (*entry.Predecessor, error) {
	path := filepath.Join(dir, predecessorFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	link := new(entry.Predecessor)
	if err := json.Unmarshal(content, link, json.RejectUnknownMembers(true)); err != nil {
		return nil, withExit(exitConfig, fmt.Errorf("%s: %w", path, err))
	}
	return link, nil
}

func (a *app) printNewOrigin(o *newOriginOptions, r *newOriginReport) error {
	known := "size not known"
	if r.Predecessor.Head != nil {
		known = fmt.Sprintf("size %d at least", r.Predecessor.Head.Size)
	}
	fields := []field{{"origin", r.Origin}, {"in place of", r.Predecessor.Origin + ", " + known}, {"what is left", r.Former}}
	if r.Profile != "" {
		fields = append(fields, field{"old receipts", "arl verify FILE --profile " + r.Profile})
	}
	return a.printObject(r, slices.Concat(fields, []field{{"next", "arl serve --data " + o.data + ", then enrol agents again and hand out the new root"}})...)
}
