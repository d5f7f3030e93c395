package ledger

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// publishInterval is the shortest time between two published heads.
const publishInterval = time.Second

// signHead returns a signed note of the head.
func signHead(origin string, head merkle.Head, signers ...note.Signer) (string, error) {
	body := log.Checkpoint{Origin: origin, Size: head.Size, Hash: head.Root[:]}.Marshal()
	signed, err := note.Sign(&note.Note{Text: string(body)}, signers...)
	if err != nil {
		return "", fmt.Errorf("ledger: sign tree head of size %d: %w", head.Size, err)
	}
	return string(signed), nil
}

// classic returns the signers of every tree head.
func classic(keys []Key) (signers []note.Signer) {
	for _, key := range keys {
		signers = append(signers, key.Signer)
	}
	return signers
}

func verifiers(keys []Key) (list []note.Verifier) {
	for _, key := range keys {
		list = append(list, key.Verifier)
	}
	return list
}

// checkHead verifies that one of the keys has signed the stored tree head, and that the tree
// head agrees with the batch.
func checkHead(origin string, keys []Key, last *Batch) error {
	if last.Seq == 0 {
		return nil
	}
	var checkpoint *log.Checkpoint
	var err error
	for _, key := range keys {
		if checkpoint, _, _, err = log.ParseCheckpoint([]byte(last.Note), origin, key.Verifier); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: stored tree head: not signed by a key that is here and in force, unless the file of one is missing: %v", ErrCorrupt, err)
	}
	if checkpoint.Size != last.Size || string(checkpoint.Hash) != string(last.Root[:]) {
		return fmt.Errorf("%w: stored tree head is of size %d, the last batch of size %d", ErrCorrupt, checkpoint.Size, last.Size)
	}
	return nil
}

// signed returns the head that the view pictures.
func (v *view) signed() Head {
	return Head{SignedHead: verify.SignedHead{Head: v.head, Note: v.note}, RegisteredAt: v.at}
}

// Head returns the newest tree head.
func (l *Log) Head() Head { return l.view.Load().signed() }

// SignedAt returns the head that the log had at a size, signed by the Ed25519 keys. The error
// is [ErrNotFound] if the log is smaller, or [ErrStopped] once nothing is signed any more.
func (l *Log) SignedAt(size uint64) (verify.SignedHead, error) {
	head, err := l.HeadAt(size)
	if err == nil && over(l.halted) {
		err = ErrStopped
	}
	if err != nil {
		return verify.SignedHead{}, err
	}
	signed, err := signHead(l.cfg.Origin, head, classic(l.view.Load().keys)...)
	return verify.SignedHead{Head: head, Note: signed}, err
}

// Published returns the head for `GET /checkpoint`, signed by the Ed25519 and
// the ML-DSA-44 keys. It is at most a second behind [Log.Head].
func (l *Log) Published() (Head, error) { return l.published.get() }

// Countersign returns a head of this log that the Ed25519 keys have signed with the
// signatures of the ML-DSA-44 keys added. Cosignatures of others on the head stay.
func (l *Log) Countersign(head verify.SignedHead) (string, error) {
	return l.published.countersign(head)
}

// published keeps heads with both signatures. The second signature is made outside of the commit
// path, when a caller asks: on the newest head at most once in publishInterval, on a head of
// witnesses once.
type published struct {
	log *Log

	mu   sync.Mutex
	made time.Duration // uptime
	head Head

	given, countersigned string // the head that was countersigned last, before and after
}

func (p *published) countersign(head verify.SignedHead) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if head.Note == p.given {
		return p.countersigned, nil
	}
	if over(p.log.halted) {
		return "", ErrStopped
	}
	signed, err := signHead(p.log.cfg.Origin, head.Head, cosigners(p.log.view.Load().keys)...)
	if err != nil {
		return "", err
	}
	_, lines, _ := strings.Cut(signed, "\n\n")
	p.given, p.countersigned = head.Note, head.Note+lines
	return p.countersigned, nil
}

// wait returns after the signer that is at work, with the newest countersigned head.
func (p *published) wait() (given string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.given
}

// cosigners returns the signers of published heads beside [classic].
func cosigners(keys []Key) (signers []note.Signer) {
	for _, key := range keys {
		if key.Cosigner != nil {
			signers = append(signers, key.Cosigner)
		}
	}
	return signers
}

func (p *published) get() (Head, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.head.Size == p.log.Head().Size || p.log.cfg.Uptime()-p.made < publishInterval || over(p.log.halted) {
		return p.head, nil
	}
	if p.make() != nil { // a key is away, and the head has its signatures from before
		p.head, p.made = p.log.view.Load().signed(), p.log.cfg.Uptime()
	}
	return p.head, nil
}

// make signs the newest head. After a failure the one before stays.
func (p *published) make() error {
	v := p.log.view.Load()
	head := v.signed()
	signed, err := signHead(p.log.cfg.Origin, head.Head, append(classic(v.keys), cosigners(v.keys)...)...)
	if err != nil {
		return err
	}
	head.Note = signed
	p.head, p.made = head, p.log.cfg.Uptime()
	return nil
}
