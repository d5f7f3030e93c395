package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/ledger/entry"
)

// uploadMax bounds a file that is uploaded, in bytes.
const uploadMax = 256 << 20

// nameMax bounds the name of a file, in bytes.
const nameMax = 100

// The shelves by their names in paths.
const (
	given = "uploads" // what was uploaded, and what jobs made
	kept  = "runs"    // the directory that the console was started with
)

// kind is what a file is for.
type kind string

const (
	aRun      kind = "run"
	aScenario kind = "scenario"
	aPolicy   kind = "policy"
)

// item is something on a shelf.
type item struct {
	Shelf, Name string
	Kind        kind
	Path        string
	Bytes       int64 // of a file
}

// ID is the item's name in forms.
func (i *item) ID() string { return i.Shelf + "/" + i.Name }

// shelf has the directories, and how many bytes an upload may have.
type shelf struct {
	given, runs string
	most        int64
}

// list returns what is there, what was uploaded first. A directory is a run if it has the report or
// the configuration of one. A file is a scenario or a policy by the end of its name.
func (s *shelf) list() (runs, scenarios, policies []item, err error) {
	for _, at := range []struct{ name, dir string }{{given, s.given}, {kept, s.runs}} {
		if at.dir == "" {
			continue
		}
		entries, err := os.ReadDir(at.dir)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, e := range entries {
			i, ok := s.item(at.name, e.Name())
			switch {
			case !ok:
			case i.Kind == aRun:
				runs = append(runs, i)
			case i.Kind == aScenario:
				scenarios = append(scenarios, i)
			default:
				policies = append(policies, i)
			}
		}
	}
	return runs, scenarios, policies, nil
}

// item returns what has a name on a shelf.
func (s *shelf) item(on, name string) (item, bool) {
	dir := map[string]string{given: s.given, kept: s.runs}[on]
	if dir == "" || name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return item{}, false
	}
	i := item{Shelf: on, Name: name, Path: filepath.Join(dir, name)}
	info, err := os.Stat(i.Path)
	if err != nil {
		return item{}, false
	}
	if info.IsDir() {
		i.Kind = aRun
		for _, file := range []string{engine.ReportFile, engine.ConfigFile} {
			if _, err := os.Stat(filepath.Join(i.Path, file)); err == nil {
				return i, true
			}
		}
		return item{}, false
	}
	i.Bytes = info.Size()
	switch strings.ToLower(filepath.Ext(name)) {
	case ".ndjson", ".jsonl":
		i.Kind = aScenario
	case ".yaml", ".yml", ".json":
		i.Kind = aPolicy
	}
	return i, i.Kind != "" && info.Mode().IsRegular()
}

// find returns the item that a form names. The error is a *[entry.Refusal].
func (s *shelf) find(field string, want kind, id string) (item, error) {
	on, name, _ := strings.Cut(id, "/")
	i, ok := s.item(on, name)
	switch {
	case id == "":
		return item{}, entry.Refuse(entry.Malformed, field, "no %s is chosen", want).WithRemedy("choose one that the page of the lab lists, or upload one there")
	case !ok || i.Kind != want:
		return item{}, entry.Refuse(entry.NotFound, field, "%.140q is no %s that is there", id, want).WithRemedy("the page of the lab lists what is there")
	}
	return i, nil
}

// rules returns the rules that a form names, and the path of their file. Without a name, they are
// the built-in rules, and have no file.
func (s *shelf) rules(field, id string) (p *recovery.Policy, path string, err error) {
	if id == "" {
		return recovery.Default(), "", nil
	}
	i, err := s.find(field, aPolicy, id)
	if err != nil {
		return nil, "", err
	}
	text, err := readPolicy(i.Path)
	if err != nil {
		return nil, "", err
	}
	p, err = recovery.Load(i.Name, text)
	return p, i.Path, err
}

// readPolicy reads the file of a policy. A longer file than a policy may be is cut off behind the
// limit, so that whoever reads the text finds the mistake.
func readPolicy(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(f, recovery.DocumentMax+1))
}

// save writes a file on the shelf of uploads, and returns its name there. An earlier file of the
// name is replaced at once. The error is a *[entry.Refusal], or an error of the file system.
func (s *shelf) save(name string, want kind, from io.Reader, most int64) (item, error) {
	name, err := plainName(name, want)
	if err != nil {
		return item{}, err
	}
	f, err := os.CreateTemp(s.given, ".upload-*")
	if err != nil {
		return item{}, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is gone once it has its name
	n, err := io.Copy(f, io.LimitReader(from, most+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return item{}, err
	}
	if n > most {
		return item{}, entry.Refuse(entry.TooLarge, "file", "%s has more than %d bytes", name, most).
			WithRemedy("start arl console with --runs DIR: a file in DIR has any size")
	}
	i := item{Shelf: given, Name: name, Kind: want, Path: filepath.Join(s.given, name), Bytes: n}
	if info, err := os.Stat(i.Path); err == nil && info.IsDir() {
		return item{}, entry.Refuse(entry.Malformed, "file", "%s is the name of a run", name).WithRemedy("give the file another name")
	}
	return i, os.Rename(f.Name(), i.Path)
}

// extensions are the ends of the names of files, the one that a name without any gets first.
var extensions = map[kind][]string{aScenario: {".ndjson", ".jsonl"}, aPolicy: {".yaml", ".yml", ".json"}}

// plainName returns the name of a file as the shelf has it: letters, digits, and few signs.
func plainName(name string, want kind) (string, error) {
	name = name[strings.LastIndexAny(name, `/\`)+1:] // a browser may send a path
	name = strings.TrimLeft(strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, name), ".-")
	if name == "" {
		return "", entry.Refuse(entry.Malformed, "file", "no file is chosen, or its name has no letter").WithRemedy("choose a file, or give the file a name")
	}
	if len(name) > nameMax {
		return "", entry.Refuse(entry.Malformed, "file", "the name has %d bytes, the limit is %d", len(name), nameMax).WithRemedy("give the file a shorter name")
	}
	if !slices.Contains(extensions[want], strings.ToLower(filepath.Ext(name))) {
		name += extensions[want][0]
	}
	return name, nil
}

// keepRules keeps rules as a file on no shelf, so that a command can name them, and returns the
// path. The same rules have the same path.
func (s *shelf) keepRules(p *recovery.Policy) (string, error) {
	digest := strings.TrimPrefix(string(p.Hash()), "sha256:")
	return s.hide("rules-"+digest+".json", fmt.Appendf(nil, "{\"recovery\":%s}\n", p.JSON()))
}

// hide writes a file that no page lists, if the file is not there.
func (s *shelf) hide(name string, content []byte) (string, error) {
	dir := filepath.Join(s.given, ".named")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	return path, cmp.Or(os.MkdirAll(dir, 0o700), os.WriteFile(path, content, 0o600))
}
