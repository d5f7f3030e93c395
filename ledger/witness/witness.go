// Package witness collects and gives cosignatures on tree heads
// (c2sp.org/tlog-witness, c2sp.org/tlog-cosignature).
//
// [Witness] is a witness: it cosigns a tree head of a log that it knows only if that
// head continues the one that it cosigned last, and it keeps what it cosigned before
// it answers. [Rounds] is the log's side: it asks the witnesses of a witness policy
// for cosignatures on one head after another, beside the order of entries and never
// in its way.
package witness

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// The files of a witness in its state directory.
const (
	keyFile   = "witness.key"
	stateFile = "witness.json"
	lockFile  = "witness.lock"
)

// The refusals of a witness. Each has a status of c2sp.org/tlog-witness.
var (
	ErrUnknownLog = errors.New("witness: this witness knows no log with the origin of the tree head")
	ErrSignature  = errors.New("witness: no known key of the log has signed the tree head")
	ErrOldSize    = errors.New("witness: the old size is above that of the tree head")
	ErrProof      = errors.New("witness: the tree head does not continue the one cosigned before")
)

// ErrState reports a witness with a lost or damaged record of its cosignatures. Such a witness
// could cosign a fork, and does not start.
var ErrState = errors.New("witness: the record of cosigned tree heads is lost or damaged")

// ErrLog reports a log that cannot be known by its keys.
var ErrLog = errors.New("witness: not the keys of a log")

// ErrClosed reports a witness that was closed.
var ErrClosed = errors.New("witness: closed")

// ErrGate reports a tree head that does not pass the gate of the witness.
var ErrGate = errors.New("witness: the tree head is not cosigned")

// ErrInUse reports a state directory that another process has open.
var ErrInUse = errors.New("witness: another process uses the state directory")

// SizeError reports a request from another size than that of the head that the witness
// cosigned last.
type SizeError struct {
	Size uint64 // of the head cosigned last; 0: none
}

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("witness: the tree head cosigned last has size %d", e.Size)
}

// Log is a log with heads that a witness cosigns.
type Log struct {
	Origin string
	Keys   []string // Ed25519 verifier keys of its heads
}

// LogsOf returns the logs of verifier keys, the name of each of which is its log's
// origin, in the order of their first keys.
func LogsOf(verifierKeys []string) (logs []Log) {
	for _, key := range verifierKeys {
		origin, _, _ := strings.Cut(key, "+")
		i := slices.IndexFunc(logs, func(l Log) bool { return l.Origin == origin })
		if i < 0 {
			i, logs = len(logs), append(logs, Log{Origin: origin})
		}
		logs[i].Keys = append(logs[i].Keys, key)
	}
	return logs
}

// Config names the logs of a witness, and its directory.
type Config struct {
	Dir  string // state directory; made if it is missing
	Name string // of a new witness, such as example.org/witness-1; empty: there must be one
	Logs []Log
	// Gate is asked before a head is cosigned whose signature is right; its error is that
	// of Cosign. Nil: every head passes that continues the one before.
	Gate func(signed string) error
	// Passphrase decrypts the key file, NewPassphrase encrypts a new one; nil: not
	// encrypted.
	Passphrase, NewPassphrase keys.Passphrase
}

// Witness cosigns tree heads. It may be used concurrently.
type Witness struct {
	keys *keys.Witness
	logs map[string]note.Verifiers // by origin
	path string
	lock *flock.Flock
	gate func(signed string) error
	// accused has room for all evidence that a witness keeps.
	accused chan *verify.Evidence

	mu     sync.Mutex
	state  state // as the file has it
	closed bool
}

// state is the record that a witness keeps.
type state struct {
	Name  string            `json:"name"`
	Heads map[string]string `json:"heads"` // by origin: the newest head, with the cosignatures
}

// Open opens a witness; with a name, a missing one is made. The error is [ErrState],
// [ErrInUse], [ErrLog], fs.ErrNotExist if there is no witness and no name, or that of a
// key file.
func Open(c *Config) (_ *Witness, err error) {
	w := &Witness{logs: map[string]note.Verifiers{}, path: filepath.Join(c.Dir, stateFile), lock: flock.New(filepath.Join(c.Dir, lockFile)), gate: c.Gate}
	for _, l := range c.Logs {
		if err := w.know(l); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("witness: open: %w", err)
	}
	switch locked, err := w.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("witness: open: %w", err)
	case !locked:
		return nil, fmt.Errorf("%w %s", ErrInUse, c.Dir)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.lock.Unlock())
		}
	}()
	kept, err := w.Evidence("")
	if err != nil {
		return nil, err
	}
	w.accused = make(chan *verify.Evidence, len(w.logs)*len(evidenceKinds))
	for i := range kept {
		w.accused <- &kept[i]
	}
	path := filepath.Join(c.Dir, keyFile)
	w.keys, err = keys.LoadWitness(path, c.Passphrase)
	if errors.Is(err, fs.ErrNotExist) && c.Name != "" {
		return w, w.begin(path, c)
	}
	if err != nil {
		return nil, err
	}
	return w, w.load()
}

// Close lets another process use the state directory. Nothing is cosigned afterwards.
func (w *Witness) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.lock.Unlock()
}

// know adds the keys of a log.
func (w *Witness) know(l Log) error {
	if err := keys.CheckOrigin(l.Origin); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	var list []note.Verifier
	for _, key := range l.Keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return fmt.Errorf("%w: %.140q: %w: want an Ed25519 verifier key", ErrLog, key, err)
		}
		list = append(list, verifier)
	}
	w.logs[l.Origin] = note.VerifierList(list...)
	return nil
}

// begin makes a witness. The record comes before the key: a key without a record has lost its
// record.
func (w *Witness) begin(path string, c *Config) (err error) {
	if before, err := readState(w.path); err == nil && len(before.Heads) > 0 {
		return fmt.Errorf("%w: %s is of a witness whose key is missing: restore %s", ErrState, w.path, path)
	}
	w.state = state{Name: c.Name, Heads: map[string]string{}}
	if err := w.store(w.state); err != nil {
		return err
	}
	w.keys, err = keys.GenerateWitness(path, c.Name, c.NewPassphrase)
	return err
}

// load reads the record and checks it: each head is one that this witness cosigned.
func (w *Witness) load() error {
	lost := func(err error) error { return fmt.Errorf("%w: %s: %w", ErrState, w.path, err) }
	var err error
	if w.state, err = readState(w.path); err != nil {
		return lost(err)
	}
	if w.state.Name != w.keys.Name {
		return lost(fmt.Errorf("of witness %.140q, but the key is of %q", w.state.Name, w.keys.Name))
	}
	for origin, signed := range w.state.Heads {
		if _, err := headOf(origin, signed, w.own()); err != nil {
			return lost(fmt.Errorf("the head of %q: %w", origin, err))
		}
	}
	return nil
}

func readState(path string) (s state, err error) {
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &s, json.RejectUnknownMembers(true))
	}
	if err == nil && s.Heads == nil {
		err = errors.New("no member heads")
	}
	return s, err
}

// own opens a head that this witness has cosigned.
func (w *Witness) own() note.Verifiers {
	verifier, err := cosign.NewVerifierForCosignatureV1(w.keys.VerifierKeys[0])
	if err != nil {
		panic(err) // the key was made of a private one
	}
	return note.VerifierList(verifier)
}

func (w *Witness) store(s state) error {
	content, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := durable.Write(w.path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("witness: keep what is cosigned: %w", err)
	}
	return nil
}

// Keys returns the verifier keys of the witness: Ed25519, ML-DSA-44.
func (w *Witness) Keys() [2]string { return w.keys.VerifierKeys }

// Name returns the name of the witness.
func (w *Witness) Name() string { return w.keys.Name }

// Logs returns the origins of the logs that the witness knows, in order.
func (w *Witness) Logs() []string { return slices.Sorted(maps.Keys(w.logs)) }

// Head returns the newest head of a log that the witness cosigned, with its
// cosignatures; empty if there is none.
func (w *Witness) Head(origin string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Heads[origin]
}

// Cosign returns cosignatures on the tree head of a request, a line each. They are on
// stable storage before. The checks and their order are those of c2sp.org/tlog-witness;
// the error is the first that fails: a [*verify.FormatError], [ErrUnknownLog],
// [ErrSignature], [ErrOldSize], a [*SizeError] or [ErrProof]; or that of the disk. An
// [ErrProof] has a [*verify.ForkError] if the request convicts the log; the evidence is
// kept before.
func (w *Witness) Cosign(r *Request) (lines string, err error) {
	origin, _, _ := strings.Cut(r.Note, "\n")
	verifiers, known := w.logs[origin]
	if !known {
		return "", fmt.Errorf("%w: %.140q", ErrUnknownLog, origin)
	}
	head, err := headOf(origin, r.Note, verifiers)
	if err != nil {
		return "", err
	}
	if r.Old > head.Size {
		return "", fmt.Errorf("%w: %d, the head has size %d", ErrOldSize, r.Old, head.Size)
	}
	if w.gate != nil {
		if err := w.gate(r.Note); err != nil {
			return "", fmt.Errorf("%w: %w", ErrGate, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return "", ErrClosed
	}
	before, err := w.newest(origin)
	if err != nil {
		return "", err
	}
	if r.Old != before.Size {
		return "", &SizeError{Size: before.Size}
	}
	if err := w.continues(before, head, r.Proof); err != nil {
		return "", err
	}
	if lines, err = w.sign(head.text); err != nil {
		return "", err
	}
	heads := maps.Clone(w.state.Heads)
	heads[origin] = head.text + "\n" + head.signatures + lines
	next := state{Name: w.state.Name, Heads: heads}
	if err := w.store(next); err != nil {
		return "", err
	}
	w.state = next
	return lines, nil
}

// newest returns the head of a log that was cosigned last.
func (w *Witness) newest(origin string) (merkle.Head, error) {
	signed := w.state.Heads[origin]
	if signed == "" {
		return merkle.EmptyHead(), nil
	}
	head, err := headOf(origin, signed, w.own())
	return head.Head, err
}

// continues checks that a head continues the one before. Where the request convicts the
// log, the evidence is kept.
func (w *Witness) continues(before merkle.Head, head opened, proof []merkle.Hash) error {
	var err error
	if before.Size == head.Size && before.Root != head.Root {
		err = fmt.Errorf("%w: two roots of size %d, %s and %s: %w", ErrProof, head.Size, before.Root, head.Root, &SizeError{Size: before.Size})
	} else if err = merkle.CheckConsistency(before, head.Head, proof); err != nil {
		err = fmt.Errorf("%w: %w", ErrProof, err)
	}
	if err == nil {
		return nil
	}
	fork := forkOf(before, head.Head, proof)
	if fork == nil {
		return err
	}
	fork.First, fork.Second = w.state.Heads[head.origin], head.text+"\n"+head.signatures
	if failed := w.Accuse(head.origin, fork.Evidence()); failed != nil {
		return fmt.Errorf("%w: %v", failed, err)
	}
	return fmt.Errorf("%w: %w", err, fork)
}

// sign returns the cosignatures on the text of a head, a line each.
func (w *Witness) sign(text string) (string, error) {
	signed, err := note.Sign(&note.Note{Text: text}, w.keys.Signers[0], w.keys.Signers[1])
	if err != nil {
		return "", fmt.Errorf("witness: cosign: %w", err)
	}
	return strings.TrimPrefix(string(signed), text+"\n"), nil
}

// opened is a tree head that a known key has signed.
type opened struct {
	merkle.Head
	origin     string
	text       string // of the note
	signatures string // of known keys, a line each
}

// headOf opens a signed tree head of a log. The error is [ErrSignature] or a
// [*verify.FormatError].
func headOf(origin, signed string, by note.Verifiers) (opened, error) {
	n, err := note.Open([]byte(signed), by)
	if err != nil {
		return opened{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	head, extended, err := verify.ParseCheckpoint(n.Text, origin)
	if err == nil && extended {
		err = errors.New("extension lines, which an ML-DSA-44 cosignature does not cover")
	}
	if err != nil {
		return opened{}, verify.Malformed("tree head", "%v", err)
	}
	o := opened{Head: head, origin: origin, text: n.Text}
	for _, sig := range n.Sigs {
		o.signatures += "\u2014 " + sig.Name + " " + sig.Base64 + "\n"
	}
	return o, nil
}
