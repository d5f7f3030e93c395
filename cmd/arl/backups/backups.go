// Package backups has the commands that back up a ledger and restore it.
package backups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger"
	"recoveryledger/ledger/backup"
	"recoveryledger/ledger/export"
	"recoveryledger/merkle"
)

// Report is the output of arl backup.
type Report struct {
	Dir    string      `json:"dir"`
	Origin string      `json:"origin"`
	Before merkle.Head `json:"before"` // of the backup that was there; size 0: none
	Head   merkle.Head `json:"head"`
	Files  int         `json:"files"` // new files of the log
	Kept   int         `json:"kept"`  // files of the log that an interrupted backup has left
	Keys   bool        `json:"keys"`  // whether it has the keys
}

// BackupCommand returns arl backup.
func BackupCommand(t *terminal.Terminal, machine func() *access.Machine) *cobra.Command {
	var w access.Where
	var data string
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Back up a ledger, while it runs",
		Long: "Back up a ledger: its log, its keys, and its evidence of equivocation. The ledger may run meanwhile: the backup is\n" +
			"what one signed tree head covers, and every entry is checked against that head. Another backup to the same\n" +
			"directory adds what is new. Run an interrupted backup again to continue it.\n\n" +
			"--data names the data directory, of a running or a stopped ledger, for the keys. The backup has the keys: keep it\n" +
			"as safe as the data directory. Without --data, the backup has the log alone. The anchor is never in a backup.",
		Example: "  arl backup /backup/ledger --data ./data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m := machine()
			if w.URL == "" && !errors.Is(ledger.NotInUse(filepath.Join(data, "db")), ledger.ErrInUse) {
				w.Data = data // it is stopped
			}
			return m.WithLog(cmd.Context(), &w, func(l *access.Log) error { return save(cmd.Context(), t, l, &files{data, w.Anchor}, args[0]) })
		},
	}
	w.Register(cmd.Flags())
	cmd.Flags().StringVar(&data, "data", "", "data directory of the ledger, which has the keys")
	cmd.Flags().StringVar(&w.Anchor, "anchor", "", "anchor file of --data (default: the directory's name with .anchor)")
	return cmd
}

// files are the files beside a log: a data directory, and its anchor.
type files struct {
	data   string // empty: they are not at hand
	anchor string // empty: beside the directory
}

// save writes a backup of a log, and of the files beside it.
func save(ctx context.Context, t *terminal.Terminal, l *access.Log, f *files, dir string) (err error) {
	b, err := backup.Begin(dir, l.Root.Origin)
	if err != nil {
		return backupError(err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if f.data != "" { // before the log: the keys of every head that the log has
		if err := node.OfOrigin(f.data, f.anchor, l.Root.Origin); err != nil {
			return err
		}
		if err := b.Copy(f.data); err != nil {
			return backupError(err)
		}
	} else if err := b.LogAlone(); err != nil {
		return exit.Remedied("pass --data, or back up the log alone to another directory", backupError(err))
	}
	head, err := l.Published(ctx)
	if err != nil {
		return err
	}
	tell, end := t.Progress("backup")
	done, err := export.Write(ctx, backup.LogDir(dir), &export.Config{Source: &export.Fixed{Head: head, Tiles: func(tile merkle.Tile) ([]byte, error) { return l.Tile(ctx, tile) }},
		Open: l.Root.Head, Progress: tell})
	end()
	if err != nil {
		return backupError(err)
	}
	m, err := b.Commit(done.Newer)
	if err != nil {
		return backupError(err)
	}
	if f.data != "" {
		if err := node.NoteBackup(f.data, m.Head.Size); err != nil {
			t.Warn("the backup is whole, but the ledger cannot tell of it: %v. Run arl backup as the user of the ledger", err)
		}
	}
	r := Report{dir, m.Origin, done.Older, m.Head, done.Files, done.Kept, f.data != ""}
	fields := []terminal.Field{{"backup", dir}, {"origin", r.Origin}, {"tree head", fmt.Sprintf("size %d, root %s", r.Head.Size, r.Head.Root)},
		{"before", fmt.Sprintf("size %d", r.Before.Size)}, {"files of the log", fmt.Sprintf("%d new", r.Files)}}
	if r.Kept > 0 {
		fields = append(fields, terminal.Field{"resumed", words.Counted(r.Kept, "file") + " kept from a backup before"})
	}
	if r.Keys {
		fields = append(fields, terminal.Field{"other files", fmt.Sprintf("%d new, %d as before; the keys are among them", b.New, b.Kept)})
	} else {
		fields = append(fields, terminal.Field{"keys", "NOT IN THE BACKUP: pass --data DIR on the ledger's machine, or keep DIR/keys elsewhere"})
	}
	return t.PrintObject(r, fields...)
}

// backupError gives the errors of writing a backup their exit codes.
func backupError(err error) error {
	switch {
	case errors.Is(err, export.ErrInconsistent): // a fork in it is the evidence
		return exit.With(exit.Inconsistent, err)
	case errors.Is(err, backup.ErrDamaged):
		return exit.Remedied("begin a new backup in another directory", exit.With(exit.Inconsistent, err))
	case errors.Is(err, backup.ErrInUse):
		return exit.With(exit.Conflict, err)
	case errors.Is(err, fs.ErrExist):
		return exit.Remedied("name another directory", exit.With(exit.Conflict, err))
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return exit.With(exit.IO, err)
	}
	return err
}

// RestoreCommand returns arl restore.
func RestoreCommand(t *terminal.Terminal, machine func() *access.Machine) *cobra.Command {
	var w access.Where
	var r node.Restoring
	var witnesses []string
	cmd := &cobra.Command{
		Use:   "restore BACKUP",
		Short: "Restore a ledger from a backup",
		Long: "Restore a ledger from a backup (arl backup) into a data directory, which must be missing or empty. Every entry is\n" +
			"checked against the signed tree head of the backup; everything else is computed from the entries, and then\n" +
			"computed again and compared. Run an interrupted restore again to continue it.\n\n" +
			"A ledger must not sign again what it signed after the backup. So one of these must say that the backup is the\n" +
			"newest: the anchor, if it is still in its place; --newest, a head that somebody has seen; a quorum of the witnesses\n" +
			"of the policy, who are asked; or --accept-loss, your word. The command says which, and keeps it in " + node.RestoredFile + ".\n" +
			"If any of them, or this machine, knows a newer head, nothing is restored.",
		Example: "  arl restore /backup/ledger --data ./data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.Data == "" {
				return exit.Usagef("--data is empty: name the data directory")
			}
			r.Backup, r.Witnesses = args[0], map[string]string{}
			for _, text := range witnesses {
				name, address, ok := strings.Cut(text, "=")
				if !ok || name == "" {
					return exit.Usagef("--witness %s: want NAME=URL, with the name of a witness in the policy", text)
				}
				r.Witnesses[name] = address
			}
			const maxHead = 1 << 20
			r.Read = func(name string) ([]byte, error) { return t.ReadInput(name, maxHead) }
			r.Progress = t.Progress
			o := machine().InPlace(&w)
			done, err := node.Restore(cmd.Context(), o, &r)
			if err != nil {
				return err
			}
			return t.PrintObject(done, restoredFields(w.Data, done)...)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.Data, "data", "", "data directory to make (required)")
	flags.StringVar(&w.Anchor, "anchor", "", "anchor file (default: the directory's name with .anchor)")
	flags.StringArrayVar(&r.Newest, "newest", nil, "newest tree head that anybody has seen, FILE or SIZE:ROOT; may be repeated")
	flags.StringVar(&r.AcceptLoss, "accept-loss", "", "vouch, with this reason, that nothing was acknowledged after the backup, or that it does not count")
	flags.StringArrayVar(&witnesses, "witness", nil, "where to ask a witness of the policy, instead of the URL there; once for each")
	flags.BoolVar(&r.Unchecked, "no-check", false, "do not compute the restored data again (arl log fsck does so later)")
	_ = cmd.MarkFlagRequired("data") // the flag exists
	return cmd
}

func restoredFields(data string, r *node.Restored) []terminal.Field {
	fields := []terminal.Field{{"data", data}, {"origin", r.Origin}, {"tree head", fmt.Sprintf("size %d, root %s", r.Head.Size, r.Head.Root)},
		{"may sign", "by " + r.AllowedBy + ": " + r.Says}}
	if r.Resumed > 0 {
		fields = append(fields, terminal.Field{"resumed", words.Counted(r.Resumed, "entry") + " kept from a restore before"})
	}
	checked := "every entry, tile, index and snapshot was computed again"
	if !r.Checked {
		checked = "NOT YET: arl log fsck --data " + data
	}
	return append(fields, terminal.Field{"checked", checked}, terminal.Field{"next", "arl serve --data " + data})
}
