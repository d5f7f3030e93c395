package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger"
	"recoveryledger/ledger/backup"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
)

// Restoring is a ledger that is restored from a backup.
type Restoring struct {
	Backup     string   // directory
	Newest     []string // known newest heads: SIZE:ROOT, or a file
	AcceptLoss string   // reason with which an operator vouches that nothing newer counts; empty: no word
	Unchecked  bool     // whether the restored data is not computed again and compared
	Witnesses  map[string]string
	Read       func(name string) ([]byte, error) // reads a file that Newest names
	Progress   func(name string) (tell func(done, total uint64), end func())
}

// Restored says which ledger was restored, and by whose word it may sign. It is kept in the data
// directory.
type Restored struct {
	Origin    string      `json:"origin"`
	Head      merkle.Head `json:"head"`
	AllowedBy string      `json:"allowed_by"` // anchor, head, witnesses or operator
	Says      string      `json:"says"`
	At        int64       `json:"at"` // Unix milliseconds
	Checked   bool        `json:"checked"`
	Resumed   uint64      `json:"resumed"` // entries that an interrupted restore had copied
}

// RestoredFile is the name of the file in the data directory that says that it was restored.
const RestoredFile = "restored.json"

// stagingSuffix ends the name of the directory in which a ledger is restored. It gets its name when
// it is whole and may sign, so that a part is never taken for a ledger.
const stagingSuffix = ".restoring"

// Restore restores a ledger from a backup into a data directory, which must be missing or empty.
// The ledger signs on from the tree head of the backup, and so nothing newer may have been signed.
// One of these says so: the anchor, which stayed in its place; a head that somebody has seen; a
// quorum of the witnesses, who have cosigned nothing newer; or an operator's word. The witnesses
// are asked only if none of the others says so. A newer head that any of these, or this machine,
// knows is an error.
//
// A crash at any moment leaves no ledger, or the whole one. The next Restore goes on.
func Restore(ctx context.Context, o Options, r *Restoring) (*Restored, error) {
	final, err := place(&o)
	if err != nil {
		return nil, err
	}
	m, err := backup.Read(r.Backup)
	if err == nil && !m.HasKeys() {
		return nil, exit.Remedied(fmt.Sprintf("put the keys into %s from where they are kept, and run arl log import %s --data %s", filepath.Join(final.dir, "keys"), backup.LogDir(r.Backup), final.dir),
			exit.With(exit.NotFound, fmt.Errorf("%s has no keys, since it was made without --data", r.Backup)))
	}
	if err == nil {
		err = m.Restore(r.Backup, o.Dir)
	}
	if err != nil {
		return nil, restoreError(r.Backup, err)
	}
	n, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	if n.Origin != m.Origin {
		return nil, exit.With(exit.Verification, fmt.Errorf("%s is a backup of %s, and its keys are those of %s", r.Backup, m.Origin, n.Origin))
	}
	if err := n.checkSignatures(r.Backup); err != nil {
		return nil, restoreError(r.Backup, err)
	}
	report := &Restored{Origin: n.Origin, At: time.Now().UnixMilli()}
	what, err := r.importing(n, final, m, report)
	if err != nil {
		return nil, err
	}
	tell, end := r.Progress("restore")
	what.Progress = tell
	done, err := ledger.Import(ctx, n.Database(), n.LedgerConfig(o), what)
	end()
	if err != nil {
		return nil, n.importError(r.Backup, err)
	}
	report.Head, report.Resumed = done.Head, done.Resumed
	if done.Already { // it was interrupted behind the copy
		report.Resumed = done.Head.Size
	}
	if report.AllowedBy == "" {
		if err := r.askWitnesses(ctx, o, report); err != nil {
			return nil, err
		}
	}
	if !r.Unchecked {
		tell, end := r.Progress("check")
		_, err := Check(ctx, o, tell)
		end()
		if err != nil {
			return nil, err
		}
		report.Checked = true
	}
	if err := NoteBackup(o.Dir, done.Head.Size); err != nil { // from here on people are told when it is old
		return nil, err
	}
	return report, final.take(&o, report)
}

// checkSignatures checks every signature that a key of the ledger made on the tree head of a
// backup, which has all of these keys. The import reads those of the Ed25519 keys alone. A
// signature by no key here is a damaged one of the ledger if it has the ledger's name, or the hash
// of a key.
func (n *Node) checkSignatures(backed string) error {
	path := filepath.Join(backup.LogDir(backed), export.Checkpoint)
	signed, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var own []note.Verifier
	for _, k := range n.Keys {
		second, err := cosign.NewVerifierForCosignatureV1(k.VerifierKeys[1])
		if err != nil {
			return err
		}
		own = append(own, k.Verifier, second)
	}
	opened, err := note.Open(signed, note.VerifierList(own...))
	if unverified, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		opened, err = unverified.Note, nil
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", backup.ErrDamaged, path, err)
	}
	for _, s := range opened.UnverifiedSigs {
		if s.Name == n.Origin || slices.ContainsFunc(own, func(v note.Verifier) bool { return v.KeyHash() == s.Hash }) {
			return fmt.Errorf("%w: %s: the signature of %.140q by the key %08x is by no key in the backup", backup.ErrDamaged, path, s.Name, s.Hash)
		}
	}
	return nil
}

// restoreError gives the errors of a backup their exit codes.
func restoreError(dir string, err error) error {
	switch {
	case errors.Is(err, backup.ErrDamaged):
		return exit.Remedied("take another copy of "+dir, exit.With(exit.Inconsistent, err))
	case errors.Is(err, fs.ErrExist):
		return exit.With(exit.Conflict, err)
	case errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.NotFound, fmt.Errorf("%s is no whole backup: %w", dir, err))
	}
	return exit.With(exit.IO, err)
}

// destination is where a restored ledger gets its place.
type destination struct{ dir, anchor string }

// place moves the options to the directory in which the ledger is restored, and returns the place
// that it gets in the end.
func place(o *Options) (d destination, err error) {
	n := &Node{Dir: filepath.Clean(o.Dir), Anchor: o.Anchor}
	if err := n.findAnchor(); err != nil {
		return d, err
	}
	d = destination{n.Dir, n.Anchor}
	names, err := os.ReadDir(d.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, exit.With(exit.IO, err)
	}
	if len(names) > 0 {
		return d, exit.With(exit.Conflict, fmt.Errorf("%s holds %s: a restore makes the directory: move it away, and leave the anchor %s where it is", d.dir, names[0].Name(), d.anchor))
	}
	o.Dir, o.Anchor = d.dir+stagingSuffix, d.anchor+stagingSuffix
	return d, nil
}

// importing says what the restored log must cover, and by whose word it may sign if that is known
// before.
func (r *Restoring) importing(n *Node, final destination, m *backup.Manifest, report *Restored) (*ledger.ImportConfig, error) {
	seen, err := n.seenHeads()
	if err != nil {
		return nil, err
	}
	own := ledger.KnownHead{Head: m.Head, By: "its backup.json names a tree head"}
	what := &ledger.ImportConfig{Export: backup.LogDir(r.Backup), Newer: "restore a newer backup", Seen: append(seen, own)}
	anchored, err := ledger.Anchored(final.anchor, n.Origin)
	switch {
	case err == nil:
		what.Newest = append(what.Newest, ledger.KnownHead{Head: anchored, By: final.anchor + " has a signed tree head"})
		report.AllowedBy, report.Says = "anchor", fmt.Sprintf("%s says that size %d is the newest that was signed", final.anchor, anchored.Size)
	case !errors.Is(err, fs.ErrNotExist) && r.AcceptLoss == "":
		return nil, exit.Remedied("restore the anchor, or move it away and say by what else the ledger may sign", err)
	}
	for _, named := range r.Newest {
		head, err := n.namedHead(named, r.Read)
		if err != nil {
			return nil, err
		}
		what.Newest = append(what.Newest, head)
		if report.AllowedBy == "" {
			report.AllowedBy, report.Says = "head", fmt.Sprintf("--newest names size %d as the newest that was signed", head.Size)
		}
	}
	if report.AllowedBy == "" && r.AcceptLoss != "" {
		report.AllowedBy, report.Says = "operator", r.AcceptLoss
	}
	if len(what.Newest) == 0 { // the backup's own; it must not sign before its word is there
		what.Newest = append(what.Newest, own)
	}
	return what, nil
}

// askWitnesses asks the witnesses of the policy in force whether they have cosigned anything newer
// than the restored log.
func (r *Restoring) askWitnesses(ctx context.Context, o Options, report *Restored) (err error) {
	o.Serves = true
	n, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Log.Close()) }()
	policy, _ := n.Replica.View().Chain.Policy()
	if policy == nil || policy.Witnesses == "" {
		return exit.Remedied("leave the anchor in its place; or name the newest head that anybody has seen (--newest); or vouch that nothing newer counts (--accept-loss REASON)",
			exit.With(exit.Inconsistent, fmt.Errorf("nothing says that size %d is the newest that the ledger has signed: there is no anchor, and the policy names no witnesses", report.Head.Size)))
	}
	if _, err := n.Rounds(ctx, Witnessing{URLs: r.Witnesses, Require: true}); err != nil {
		return err
	}
	report.AllowedBy, report.Says = "witnesses", fmt.Sprintf("a quorum of the witnesses has cosigned size %d, and nothing newer", report.Head.Size)
	return nil
}

// take gives a restored ledger its place. A crash behind the anchor leaves no ledger under an
// anchor that the next restore meets.
func (d destination) take(staging *Options, report *Restored) error {
	text, err := json.Marshal(report, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := durable.Write(filepath.Join(staging.Dir, RestoredFile), append(text, '\n'), 0o600); err != nil {
		return exit.With(exit.IO, err)
	}
	if err := durable.Rename(staging.Anchor, d.anchor); err != nil {
		return exit.With(exit.IO, err)
	}
	if err := os.Remove(d.dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return exit.With(exit.IO, err)
	}
	return exit.With(exit.IO, durable.Rename(staging.Dir, d.dir))
}

// restored returns what the data directory says about its restore; empty: it was never restored.
func (n *Node) restored() string {
	text, err := os.ReadFile(filepath.Join(n.Dir, RestoredFile))
	if err != nil {
		return ""
	}
	var r Restored
	if json.Unmarshal(text, &r) != nil {
		return RestoredFile + " cannot be read"
	}
	return strings.TrimSpace(fmt.Sprintf("size %d, allowed by %s: %s", r.Head.Size, cmp.Or(r.AllowedBy, "nobody"), r.Says))
}

// OfOrigin returns an error if the anchor of a data directory is not that of a ledger of this
// origin. It needs no passphrase.
func OfOrigin(dir, anchor, origin string) error {
	n := &Node{Dir: dir, Anchor: anchor}
	if err := n.findAnchor(); err != nil {
		return err
	}
	if _, err := ledger.Anchored(n.Anchor, origin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.With(exit.Config, fmt.Errorf("%s is not the data directory of %s: %w", dir, origin, err))
	}
	return nil
}
