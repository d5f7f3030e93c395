package ledger

import (
	"fmt"
	"sync"
	"time"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
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

// checkHead verifies the signature of the stored tree head and that it says
// what the batch says.
func (l *Log) checkHead(last *Batch) error {
	if last.Seq == 0 {
		return nil
	}
	checkpoint, _, _, err := log.ParseCheckpoint([]byte(last.Note), l.cfg.Origin, l.cfg.Verifier)
	if err != nil {
		return fmt.Errorf("%w: stored tree head: %v", ErrCorrupt, err)
	}
	if checkpoint.Size != last.Size || string(checkpoint.Hash) != string(last.Root[:]) {
		return fmt.Errorf("%w: stored tree head is of size %d, the last batch of size %d", ErrCorrupt, checkpoint.Size, last.Size)
	}
	return nil
}

// signed returns the head that the view pictures.
func (v *view) signed() Head { return Head{Head: v.head, Note: v.note, At: v.at} }

// Head returns the newest tree head.
func (l *Log) Head() Head { return l.view.Load().signed() }

// Published returns the head for `GET /checkpoint`, signed by the Ed25519 and
// the ML-DSA-44 key. It is at most a second behind [Log.Head].
func (l *Log) Published() (Head, error) { return l.published.get() }

// published keeps the head with both signatures. The second signature is made
// off the commit path, when somebody asks, at most once in publishInterval.
type published struct {
	log *Log

	mu   sync.Mutex
	made time.Time
	head Head
	err  error
}

func (p *published) get() (Head, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.head.Size == p.log.Head().Size || p.log.cfg.Now().Sub(p.made) < publishInterval {
		return p.head, p.err
	}
	return p.head, p.make()
}

func (p *published) make() error {
	p.head, p.made = p.log.Head(), p.log.cfg.Now()
	signers := []note.Signer{p.log.cfg.Signer}
	if p.log.cfg.Cosigner != nil {
		signers = append(signers, p.log.cfg.Cosigner)
	}
	p.head.Note, p.err = signHead(p.log.cfg.Origin, p.head.Head, signers...)
	return p.err
}
