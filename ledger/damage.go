package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/disk"
)

// messageMax is the number of bytes of a storage engine's message that the ledger passes on. A
// longer message lists the database, and does not name the damage.
const messageMax = 400

// toldMax is the number of errors of the storage engine that are remembered, so that the logger
// does not repeat them at once.
const toldMax = 100

// openError says why the database does not open. An error that is neither "in use" nor an error
// of the system is damage, because the engine has no class for most kinds of damage.
func openError(dir string, err error) error {
	if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process") {
		return fmt.Errorf("%w: %s: stop the process that has the ledger open, or ask that process", ErrInUse, dir)
	}
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	if ofSystem(err) {
		return fmt.Errorf("ledger: open %s: %w", dir, err)
	}
	return fmt.Errorf("%w: open %s: %s", ErrCorrupt, dir, firstLine(err))
}

// ofSystem reports whether an error is about the machine. After such an error, another read of
// the same bytes may succeed. A file that is missing, or is a directory, is not such an error.
func ofSystem(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok && !absent(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, context.Canceled)
}

// absent reports whether an error says that a file is not there. The file is missing, or a
// directory is in its place, or a file is in the place of its directory.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR)
}

// classed adds the class [ErrCorrupt] to an error of the storage engine that means damage.
func classed(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) && !absent(err) {
		return err
	}
	return fmt.Errorf("%w: %s", ErrCorrupt, firstLine(err))
}

// firstLine returns the first line of an error of the storage engine. The further lines repeat
// the first line and name the place in the engine.
func firstLine(err error) string { return brief(err.Error()) }

func brief(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > messageMax {
		text = strings.ToValidUTF8(text[:messageMax], "") + " …"
	}
	return text
}

// hasTables reports whether dir holds tables of the storage engine. A new database has no
// tables before it has its marker.
func hasTables(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			return true, nil
		}
	}
	return false, nil
}

// checkOptions reads the engine's list of its own options, as opening the database does. The
// ledger needs nothing in the list, so it removes a damaged list, unless the database is open
// for reading only.
func checkOptions(dir string, cfg *Config, options *pebble.Options) error {
	options.EnsureDefaults() // the list is compared with them
	names, err := cfg.FS.List(dir)
	if err != nil {
		return openError(dir, err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		path := cfg.FS.PathJoin(dir, name)
		text, err := disk.ReadFile(cfg.FS, path)
		if err != nil {
			return openError(dir, err)
		}
		if err = options.CheckCompatibility(dir, string(text)); err == nil {
			err = checkOptionsEnd(string(text), options.String())
		}
		if err == nil {
			continue
		}
		if options.ReadOnly {
			return &DamageError{Name: path, What: firstLine(err), Spare: true}
		}
		cfg.Logger.Warn("a damaged options file of the storage engine is removed: the ledger does not need it", "path", path, "error", firstLine(err))
		if err := cfg.FS.Remove(path); err != nil {
			return openError(dir, err)
		}
	}
	return nil
}

// checkOptionsEnd checks that a list of options ends as the engine ends it: with a whole line,
// and with the same option of the same section. The engine itself does not notice that a list
// was cut off.
func checkOptionsEnd(text, want string) error {
	if !strings.HasSuffix(text, "\n") || lastOption(text) != lastOption(want) {
		return fmt.Errorf("the options file ends at %d bytes, and not with %s: the rest is missing", len(text), lastOption(want))
	}
	return nil
}

// lastOption names the last option of a list, with its section.
func lastOption(text string) string {
	section := text[strings.LastIndex(text, "\n[")+1:]
	title, _, _ := strings.Cut(section, "\n")
	option, _, _ := strings.Cut(strings.TrimSpace(section[strings.LastIndex(strings.TrimSuffix(section, "\n"), "\n")+1:]), "=")
	return option + " in " + title
}

// discardSnapshots takes the damaged snapshot out of the store. The engine cuts the range off
// the tables. A delete does not work: a compaction would read the damaged block to drop it, and
// would fail for ever.
func (l *Log) discardSnapshots(ctx context.Context) error {
	span := pebble.KeyRange{Start: []byte{keySnapshot}, End: []byte{keySnapshot + 1}}
	if err := l.db.Excise(ctx, span); err != nil {
		return fmt.Errorf("ledger: discard the damaged snapshot: %w", classed(err))
	}
	return nil
}

// renewTables rewrites the rest of each table that a range was cut off from, so that no file
// holds the damaged block any more. After a crash, the next start rewrites them. A sound store
// has no such tables.
func (l *Log) renewTables(ctx context.Context) error {
	levels, err := l.db.SSTables()
	if err != nil {
		return fmt.Errorf("ledger: list tables: %w", classed(err))
	}
	for _, tables := range levels {
		for _, table := range tables {
			if !table.Virtual {
				continue
			}
			if err := l.renew(ctx, table.Smallest.UserKey, table.Largest.UserKey); err != nil {
				return fmt.Errorf("ledger: write anew what a damaged table holds besides: %w", classed(err))
			}
		}
	}
	return nil
}

// renew makes the engine rewrite the table with the keys from first to last. The engine compacts a
// table of its lowest level only if a higher level has a key in the same range. So renew first
// writes, or deletes, the key again.
func (l *Log) renew(ctx context.Context, first, last []byte) error {
	value, err := get(l.db, first)
	switch {
	case err == nil:
		err = l.db.Set(first, value, pebble.Sync)
	case errors.Is(err, pebble.ErrNotFound):
		err = l.db.Delete(first, pebble.Sync)
	}
	if err != nil {
		return err
	}
	return l.db.Compact(ctx, first, append(slices.Clip(last), 0), false)
}

// storeLogger passes on the messages of the engine. It passes on the same error once a minute,
// because the engine retries some failed work at once, without end. Fatalf ends the process, as
// the engine demands: the engine acknowledges lost writes if Fatalf returns.
type storeLogger struct {
	cfg *Config

	// mu guards told: the time at which each error was last passed on.
	mu   sync.Mutex
	told map[string]time.Time
}

// Infof implements [pebble.Logger].
func (s *storeLogger) Infof(format string, args ...any) {
	s.cfg.Logger.Debug("storage", slog.String("message", fmt.Sprintf(format, args...)))
}

// Errorf implements [pebble.Logger].
func (s *storeLogger) Errorf(format string, args ...any) {
	s.tell("storage", slog.String("message", brief(fmt.Sprintf(format, args...))))
}

// Fatalf implements [pebble.Logger].
func (s *storeLogger) Fatalf(format string, args ...any) {
	err := errors.New("ledger: storage: " + brief(fmt.Sprintf(format, args...)))
	for _, arg := range args {
		if cause, ok := arg.(error); ok && pebble.IsCorruptionError(cause) {
			err = fmt.Errorf("%w: %s", ErrCorrupt, brief(fmt.Sprintf(format, args...)))
		}
	}
	s.cfg.Fatal(err)
	panic("ledger: Config.Fatal returned")
}

// corruption gets the error of a block that cannot be read. The error goes to the reader, and ends
// the process only if the order reads. By default the engine would always end the process.
func (s *storeLogger) corruption(info pebble.DataCorruptionInfo) {
	s.tell("damaged file", slog.String("path", info.Path), slog.String("error", firstLine(info.Details)))
}

// background logs an error of the engine in the background. It skips damage, because
// corruption has already logged it.
func (s *storeLogger) background(err error) {
	if !pebble.IsCorruptionError(err) {
		s.Errorf("background error: %s", err)
	}
}

func (s *storeLogger) tell(message string, attrs ...slog.Attr) {
	key, now := fmt.Sprint(message, attrs), time.Now()
	s.mu.Lock()
	last, known := s.told[key]
	again := !known || now.Sub(last) > time.Minute
	if again {
		if s.told == nil || len(s.told) >= toldMax {
			s.told = map[string]time.Time{}
		}
		s.told[key] = now
	}
	s.mu.Unlock()
	if again {
		s.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, message, attrs...)
	}
}
