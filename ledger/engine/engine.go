// Package engine fits the storage engine to a ledger: its messages, the list of its options, what
// marks a database in its files, and the way in which damage leaves them.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"recoveryledger/ledger/disk"
)

// ErrCorrupt reports stored bytes that differ from the written bytes.
var ErrCorrupt = errors.New("ledger: the stored log is damaged")

// Classed adds the class [ErrCorrupt] to an error of the storage engine that means damage.
func Classed(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) && !disk.Absent(err) {
		return err
	}
	return fmt.Errorf("%w: %s", ErrCorrupt, FirstLine(err))
}

// messageMax is the number of bytes of a storage engine's message that the ledger passes on. A
// longer message lists the database, and does not name the damage.
const messageMax = 400

// toldMax is the number of errors of the storage engine that are remembered, so that the logger
// does not repeat them at once.
const toldMax = 100

// FirstLine returns the first line of an error of the storage engine. The further lines repeat
// the first line and name the place in the engine.
func FirstLine(err error) string { return brief(err.Error()) }

func brief(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > messageMax {
		text = strings.ToValidUTF8(text[:messageMax], "") + " …"
	}
	return text
}

// formatMarker is the marker in the directory of a database that has its format: a decimal number.
const formatMarker = "format-version"

// CheckFormat refuses the database in dir if a newer engine wrote it. It changes nothing, and does
// not look at anything else: opening the database names other mistakes. The engine itself has no
// class for this error, so that it would count as damage.
func CheckFormat(fs vfs.FS, dir string) error {
	text, err := atomicfs.ReadMarker(fs, dir, formatMarker)
	format, malformed := strconv.ParseUint(text, 10, 64)
	if err == nil && malformed == nil && format > uint64(pebble.FormatNewest) {
		return fmt.Errorf("format %d of the storage engine, and this version of arl knows those up to %d: open the ledger with the version of arl that made it", format, pebble.FormatNewest)
	}
	return nil
}

// CheckOptionsEnd checks that a list of options ends as the engine ends it: with a whole line,
// and with the same option of the same section. The engine itself does not notice that a list
// was cut off.
func CheckOptionsEnd(text, want string) error {
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

// FatalError is an error after which the engine must not go on. Any goroutine of the engine may
// meet the error, and hold locks of the engine, while entries are still ordered.
type FatalError struct{ err error }

// Error implements error.
func (e *FatalError) Error() string { return e.err.Error() }

// Unwrap returns the error beneath, which is [ErrCorrupt] if a file is damaged.
func (e *FatalError) Unwrap() error { return e.err }

// Logger passes on the messages of the engine. It passes on the same error once a minute,
// because the engine retries some failed work at once, without end. Fatalf ends the process, as
// the engine demands: the engine acknowledges lost writes if Fatalf returns.
type Logger struct {
	To   *slog.Logger
	Ends func(error) // ends the process; must not return

	// mu guards told: the time at which each error was last passed on.
	mu   sync.Mutex
	told map[string]time.Time
}

// Infof implements [pebble.Logger].
func (s *Logger) Infof(format string, args ...any) {
	s.To.Debug("storage", slog.String("message", fmt.Sprintf(format, args...)))
}

// Errorf implements [pebble.Logger].
func (s *Logger) Errorf(format string, args ...any) {
	s.tell("storage", slog.String("message", brief(fmt.Sprintf(format, args...))))
}

// Fatalf implements [pebble.Logger].
func (s *Logger) Fatalf(format string, args ...any) {
	err := errors.New("ledger: storage: " + brief(fmt.Sprintf(format, args...)))
	for _, arg := range args {
		if cause, ok := arg.(error); ok && pebble.IsCorruptionError(cause) {
			err = fmt.Errorf("%w: %s", ErrCorrupt, brief(fmt.Sprintf(format, args...)))
		}
	}
	s.Ends(&FatalError{err})
	panic("engine: Logger.Ends returned")
}

// Corruption gets the error of a block that cannot be read. The error goes to the reader, and ends
// the process only if the order reads. By default the engine would always end the process.
func (s *Logger) Corruption(info pebble.DataCorruptionInfo) {
	s.tell("damaged file", slog.String("path", info.Path), slog.String("error", FirstLine(info.Details)))
}

// Background logs an error of the engine in the background. It skips damage, because
// Corruption has already logged it.
func (s *Logger) Background(err error) {
	if !pebble.IsCorruptionError(err) {
		s.Errorf("background error: %s", err)
	}
}

func (s *Logger) tell(message string, attrs ...slog.Attr) {
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
		s.To.LogAttrs(context.Background(), slog.LevelError, message, attrs...)
	}
}
