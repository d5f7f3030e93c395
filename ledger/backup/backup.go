// Package backup keeps what a ledger needs beside its log: the key files, and the evidence outside
// the log. The log itself is an export (package export) in the same directory.
//
//	backup.json        origin, tree head, and the files by their digests
//	files/SHA256       the content of a file; it is never changed
//	log/               the export
//
// A file gets its name when it is whole, and backup.json comes last. So a crash at any moment
// leaves the older backup or the newer one. Another backup to the same directory writes only what
// is new.
//
// An anchor is no part of a backup: restored together with the data, it would vouch for an old
// state. Neither is the mark of a key that has signed nothing, since the key may have signed by the
// time of the restore.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/durable"
	"recoveryledger/merkle"
)

// ErrDamaged reports a backup that is damaged, or no backup.
var ErrDamaged = errors.New("backup: the backup is damaged")

// ErrInUse reports a directory that another backup writes to.
var ErrInUse = errors.New("backup: the directory is in use")

// Limits of a backup.
const (
	maxFile     = 128 << 20 // bytes of a file beside the log
	maxFiles    = 256
	maxManifest = 256 << 10
	maxName     = 200
)

// The places in the directory of a backup.
const (
	manifestName = "backup.json"
	filesName    = "files"
	logName      = "log"
)

// unusedSuffix ends the name of the mark of a key that has signed nothing.
const unusedSuffix = ".unused"

// Manifest says what a backup has.
type Manifest struct {
	Version int         `json:"version"` // 1
	Origin  string      `json:"origin"`
	Head    merkle.Head `json:"head"` // of the export; the export may be newer, after a crash
	Files   []File      `json:"files"`
}

// File is a file beside the log.
type File struct {
	Name   string `json:"name"`   // in the data directory, with slashes
	SHA256 string `json:"sha256"` // 64 hexadecimal digits in lower case
	Size   int64  `json:"size"`
}

// LogDir returns the directory of the export in a backup.
func LogDir(dir string) string { return filepath.Join(dir, logName) }

// Parse reads a manifest. The error is [ErrDamaged].
func Parse(text []byte) (*Manifest, error) {
	m := new(Manifest)
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%w: %s has %d bytes, and at most %d count", ErrDamaged, manifestName, len(text), maxManifest)
	}
	if err := json.Unmarshal(text, m, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrDamaged, manifestName, err)
	}
	switch {
	case m.Version != 1:
		return nil, fmt.Errorf("%w: %s has version %d, and this program reads version 1", ErrDamaged, manifestName, m.Version)
	case m.Origin == "" || len(m.Files) > maxFiles:
		return nil, fmt.Errorf("%w: %s names the origin %q and %d files", ErrDamaged, manifestName, m.Origin, len(m.Files))
	}
	names := map[string]bool{}
	for _, f := range m.Files {
		sum, err := hex.DecodeString(f.SHA256)
		if err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != f.SHA256 || f.Size < 0 || f.Size > maxFile {
			return nil, fmt.Errorf("%w: %s: %q has no digest or size", ErrDamaged, manifestName, f.Name)
		}
		if !validName(f.Name) || names[f.Name] {
			return nil, fmt.Errorf("%w: %s: %q is no name of a file of a ledger, or stands twice", ErrDamaged, manifestName, f.Name)
		}
		names[f.Name] = true
	}
	return m, nil
}

// validName reports whether a file of that name can be in a backup: evidence.ndjson, or a file
// right in keys.
func validName(name string) bool {
	if name == EvidenceName {
		return true
	}
	base, isKey := strings.CutPrefix(name, "keys/")
	return isKey && base != "" && len(name) <= maxName && !strings.HasPrefix(base, ".") && !strings.ContainsAny(base, "/\\:\x00") && !strings.HasSuffix(base, unusedSuffix)
}

// EvidenceName is the name of the file of evidence in the directory of a ledger.
const EvidenceName = "evidence.ndjson"

// HasKeys reports whether the backup has keys of the ledger.
func (m *Manifest) HasKeys() bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return strings.HasPrefix(f.Name, "keys/") })
}

// Encode returns the manifest in its one form.
func (m *Manifest) Encode() ([]byte, error) {
	text, err := json.Marshal(m, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(text, '\n'), err
}

// Read reads the manifest of a backup. The error is [os.ErrNotExist] if there is none.
func Read(dir string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// Writer is a backup that is being written. No other process writes to its directory meanwhile.
type Writer struct {
	dir  string
	lock *os.File
	m    Manifest
	had  int // files of the backup before, beside the log
	Kept int // files that the backup had
	New  int // files that were written
}

// Begin opens a directory for a backup of a ledger, or makes it. The error is [ErrInUse], or
// [os.ErrExist] if the directory has a backup of another ledger.
func Begin(dir, origin string) (*Writer, error) {
	if err := os.MkdirAll(filepath.Join(dir, filesName), 0o700); err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, m: Manifest{Version: 1, Origin: origin, Files: []File{}}}
	switch before, err := Read(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case before.Origin != origin:
		return nil, fmt.Errorf("backup: %s is a backup of %s, not of %s: %w", dir, before.Origin, origin, fs.ErrExist)
	default:
		w.had = len(before.Files)
	}
	var err error
	if w.lock, err = os.Open(filepath.Join(dir, filesName)); err != nil {
		return nil, err
	}
	held, err := durable.Lock(w.lock)
	if err == nil && !held {
		err = fmt.Errorf("%w: %s", ErrInUse, dir)
	}
	if err != nil {
		return nil, errors.Join(err, w.lock.Close())
	}
	return w, nil
}

// Close ends the writing. Without Commit the backup is as it was.
func (w *Writer) Close() error { return w.lock.Close() }

// LogAlone begins a backup without files beside the log. The error is [os.ErrExist] if the backup
// before has such files: Commit would remove the keys, of which this may be the last copy.
func (w *Writer) LogAlone() error {
	if w.had == 0 {
		return nil
	}
	return fmt.Errorf("backup: %s has keys of the ledger, which a backup of the log alone would remove: %w", w.dir, fs.ErrExist)
}

// Copy takes the files of a data directory: the keys, and the evidence.
func (w *Writer) Copy(data string) error {
	names, err := os.ReadDir(filepath.Join(data, "keys"))
	if err != nil {
		return err
	}
	for _, e := range names {
		if name := "keys/" + e.Name(); e.Type().IsRegular() && validName(name) {
			if err := w.add(name, filepath.Join(data, "keys", e.Name())); err != nil {
				return err
			}
		}
	}
	err = w.add(EvidenceName, filepath.Join(data, EvidenceName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (w *Writer) add(name, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if name == EvidenceName { // the rest is being written
		content = content[:strings.LastIndexByte(string(content), '\n')+1]
	}
	if len(content) > maxFile || len(w.m.Files) == maxFiles {
		return fmt.Errorf("backup: %s has %d bytes, or is one file too many: at most %d bytes and %d files are kept", path, len(content), maxFile, maxFiles)
	}
	sum := sha256.Sum256(content)
	f := File{name, hex.EncodeToString(sum[:]), int64(len(content))}
	w.m.Files = append(w.m.Files, f)
	if kept, err := f.read(w.dir); err == nil && len(kept) == len(content) {
		w.Kept++
		return nil
	}
	w.New++
	return durable.Write(f.path(w.dir), content, 0o600)
}

// Commit writes the manifest under the tree head of the export. A crash here leaves files that
// nothing refers to; the next Commit removes them.
func (w *Writer) Commit(head merkle.Head) (*Manifest, error) {
	w.m.Head = head
	text, err := w.m.Encode()
	if err != nil {
		return nil, err
	}
	if err := durable.Write(filepath.Join(w.dir, manifestName), text, 0o600); err != nil {
		return nil, err
	}
	there, err := os.ReadDir(filepath.Join(w.dir, filesName))
	if err != nil {
		return nil, err
	}
	for _, e := range there {
		if !slices.ContainsFunc(w.m.Files, func(f File) bool { return f.SHA256 == e.Name() }) {
			if err := durable.Remove(filepath.Join(w.dir, filesName, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return &w.m, nil
}

func (f *File) path(dir string) string { return filepath.Join(dir, filesName, f.SHA256) }

// read returns the content of a file of a backup, if it is what was kept. The error is
// [ErrDamaged].
func (f *File) read(dir string) ([]byte, error) {
	info, err := os.Stat(f.path(dir))
	if err == nil && info.Size() != f.Size {
		err = fmt.Errorf("it has %d bytes", info.Size())
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(f.path(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s, which has %s in %d bytes: %v", ErrDamaged, f.path(dir), f.Name, f.Size, err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, fmt.Errorf("%w: %s, which has %s, was changed", ErrDamaged, f.path(dir), f.Name)
	}
	return content, nil
}

// Restore writes the files of a backup into a data directory. A file that is there must be the
// same. The error is [ErrDamaged], or [os.ErrExist] with the name of another file.
func (m *Manifest) Restore(dir, data string) error {
	contents := make([][]byte, len(m.Files))
	for i := range m.Files { // all are read before one is written
		var err error
		if contents[i], err = m.Files[i].read(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(data, "keys"), 0o700); err != nil {
		return err
	}
	for i := range m.Files {
		path := filepath.Join(data, filepath.FromSlash(m.Files[i].Name))
		err := durable.Create(path, contents[i], 0o600)
		if errors.Is(err, fs.ErrExist) {
			there, readErr := os.ReadFile(path)
			if readErr == nil && string(there) == string(contents[i]) {
				continue
			}
			err = errors.Join(fmt.Errorf("backup: %s is another file than in the backup: %w", path, fs.ErrExist), readErr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
