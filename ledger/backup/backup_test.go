package backup_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/backup"
	"recoveryledger/merkle"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// write writes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// read returns the files below a directory.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(content)
		return err
	}))
	return files
}

// save backs up a data directory.
func save(t *testing.T, data, dir string, size uint64) (*backup.Manifest, *backup.Writer) {
	t.Helper()
	w, err := backup.Begin(dir, "a.example/log")
	must(t, err)
	must(t, w.Copy(data))
	m, err := w.Commit(merkle.Head{Size: size})
	must(t, errors.Join(err, w.Close()))
	return m, w
}

var ledgerFiles = map[string]string{"keys/ledger.key": "key", "keys/coordinator.key": "other key", "evidence.ndjson": "{}\n{}\n"}

// TestRestoresWhatWasSaved saves a data directory twice, and restores it into another. What may not
// be in a backup is not in it: marks of unused keys, half lines, half files, directories, the
// database.
func TestRestoresWhatWasSaved(t *testing.T) {
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	write(t, data, ledgerFiles)
	write(t, data, map[string]string{"keys/ledger.unused": "", "keys/.ledger.key.tmp": "half", "keys/next/x": "x", "db/CURRENT": "x", "evidence.ndjson": "{}\n{}\n{\"half"})
	m, w := save(t, data, dir, 5)
	if w.New != 3 || w.Kept != 0 || !m.HasKeys() {
		t.Errorf("%+v", w)
	}
	if _, w = save(t, data, dir, 6); w.New != 0 || w.Kept != 3 {
		t.Errorf("nothing has changed: %+v", w)
	}
	write(t, data, map[string]string{"keys/ledger.key": "new key"})
	_, w = save(t, data, dir, 7)
	if w.New != 1 || w.Kept != 2 || len(read(t, filepath.Join(dir, "files"))) != 3 {
		t.Errorf("one key has changed: %+v, %v", w, read(t, dir))
	}
	m, err := backup.Read(dir)
	must(t, err)
	if m.Head.Size != 7 || m.Origin != "a.example/log" {
		t.Errorf("%+v", m)
	}
	restored := filepath.Join(t.TempDir(), "data")
	for range 2 { // an interrupted restore goes on
		must(t, m.Restore(dir, restored))
	}
	want := maps.Clone(ledgerFiles)
	want["keys/ledger.key"] = "new key"
	if got := read(t, restored); !maps.Equal(got, want) {
		t.Errorf("restored %q", got)
	}
	info, err := os.Stat(filepath.Join(restored, "keys", "ledger.key"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may read a key: %v", info.Mode())
	}
	write(t, restored, map[string]string{"keys/coordinator.key": "a third key"})
	if err := m.Restore(dir, restored); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another key: %v", err)
	}
}

// TestLogAlone backs up the log alone, beside keys and without them. The keys of a backup stay.
func TestLogAlone(t *testing.T) {
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	for range 2 {
		w, err := backup.Begin(dir, "a.example/log")
		must(t, err)
		must(t, w.LogAlone())
		m, err := w.Commit(merkle.Head{Size: 5})
		must(t, errors.Join(err, w.Close()))
		if m.HasKeys() {
			t.Errorf("%+v", m)
		}
	}
	write(t, data, ledgerFiles)
	save(t, data, dir, 6)
	w, err := backup.Begin(dir, "a.example/log")
	must(t, err)
	if err := w.LogAlone(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the keys would be removed: %v", err)
	}
	must(t, w.Close())
}

// TestDamage changes each file of a backup: nothing is restored.
func TestDamage(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	write(t, data, ledgerFiles)
	m, _ := save(t, data, dir, 5)
	for _, f := range m.Files {
		path := filepath.Join(dir, "files", f.SHA256)
		content, err := os.ReadFile(path)
		must(t, err)
		for _, bad := range [][]byte{nil, {}, append(slices.Clone(content), 'x'), append([]byte{content[0] ^ 1}, content[1:]...)} {
			must(t, os.RemoveAll(path))
			if bad != nil { // nil: the file is gone
				must(t, os.WriteFile(path, bad, 0o600))
			}
			restored := filepath.Join(t.TempDir(), "data")
			err := m.Restore(dir, restored)
			if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), f.Name) {
				t.Errorf("%s: %v", f.Name, err)
			}
			if _, err := os.Stat(restored); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s was restored in part", f.Name)
			}
		}
		must(t, os.WriteFile(path, content, 0o600))
	}
	write(t, data, map[string]string{"keys/ledger.key": "key"})
	must(t, os.WriteFile(filepath.Join(dir, "files", m.Files[0].SHA256), []byte("damaged"), 0o600))
	if _, w := save(t, data, dir, 6); w.New != 1 { // the next backup repairs it
		t.Errorf("%+v", w)
	}
	must(t, m.Restore(dir, filepath.Join(t.TempDir(), "data")))
}

// TestInterrupted ends a backup before its manifest: the older one is whole.
func TestInterrupted(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	write(t, data, ledgerFiles)
	save(t, data, dir, 5)
	write(t, data, map[string]string{"keys/ledger.key": "new key"})
	w, err := backup.Begin(dir, "a.example/log")
	must(t, err)
	must(t, w.Copy(data))
	if _, err := backup.Begin(dir, "a.example/log"); !errors.Is(err, backup.ErrInUse) {
		t.Errorf("two at once: %v", err)
	}
	must(t, w.Close())
	m, err := backup.Read(dir)
	must(t, err)
	restored := filepath.Join(t.TempDir(), "data")
	must(t, m.Restore(dir, restored))
	if got := read(t, restored); !maps.Equal(got, ledgerFiles) || m.Head.Size != 5 {
		t.Errorf("%q", got)
	}
	if _, err := backup.Begin(dir, "b.example/log"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("of another ledger: %v", err)
	}
	if _, err := backup.Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no backup: %v", err)
	}
}

const manifest = `{"version":1,"origin":"a","head":{"size":1,"root":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},"files":[{"name":"keys/a.key","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0}]}`

// TestParse refuses manifests with one mistake: above all names that lead elsewhere.
func TestParse(t *testing.T) {
	if _, err := backup.Parse([]byte(manifest)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][2]string{
		{`"version":1`, `"version":2`}, {`"origin":"a"`, `"origin":""`}, {`"size":0`, `"size":-1`}, {`"size":0`, `"size":1e12`}, {"e3b0", "E3B0"}, {"e3b0", ""},
		{"keys/a.key", "keys/../a"}, {"keys/a.key", "/etc/passwd"}, {"keys/a.key", "keys/"}, {"keys/a.key", "keys/.a"}, {"keys/a.key", "db/CURRENT"},
		{"keys/a.key", "keys/ledger.unused"}, {"keys/a.key", `keys\\a`}, {"keys/a.key", "keys/a/b"}, {"keys/a.key", "keys/" + strings.Repeat("a", 200)},
		{`"files":`, `"more":1,"files":`}, {`}]}`, `},{"name":"keys/a.key","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0}]}`},
		{manifest, ""}, {manifest, strings.Repeat(" ", 1<<19)},
	} {
		if _, err := backup.Parse([]byte(strings.Replace(manifest, bad[0], bad[1], 1))); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%.60q in the place of %.60q: %v", bad[1], bad[0], err)
		}
	}
}

// FuzzParse reads again what was read, and lets no name lead out of the data directory.
func FuzzParse(f *testing.F) {
	f.Add([]byte(manifest))
	f.Add([]byte(`{"version":1,"origin":"a","head":{},"files":[{"name":"evidence.ndjson"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := backup.Parse(text)
		if err != nil {
			if !errors.Is(err, backup.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		for _, file := range m.Files {
			if !filepath.IsLocal(filepath.FromSlash(file.Name)) || filepath.Clean(file.Name) != file.Name {
				t.Fatalf("%q leads elsewhere", file.Name)
			}
		}
		first, err := m.Encode()
		must(t, err)
		again, err := backup.Parse(first)
		must(t, err)
		second, err := again.Encode()
		must(t, err)
		if !bytes.Equal(first, second) {
			t.Fatalf("%s and %s", first, second)
		}
	})
}
