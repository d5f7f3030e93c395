package consoles

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/api/console"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// Signing signs the entries that a page shows. The keys stay in this process.
type Signing struct {
	source *Source
	files  []file
	send   func(ctx context.Context, entries []*entry.Entry) (index uint64, err error)
	// confirm asks a person at the terminal. asking lets it ask one question at a time.
	confirm func(question string) error
	asking  sync.Mutex
}

// file is a key file that can sign.
type file struct {
	console.Key
	path   string
	signer *keys.Signer // nil: the file is encrypted, and each act opens it again
}

// NewSigning returns the signing of a source. It opens each key file once, to learn the id of the
// key. It asks for the passphrase of an encrypted file, and forgets the passphrase. confirm asks at
// the terminal before a key without a passphrase signs.
func NewSigning(s *Source, c *access.Connection, paths []string, passphrase keys.Passphrase, confirm func(question string) error) (*Signing, error) {
	signing := &Signing{source: s, confirm: confirm}
	for _, path := range paths {
		encrypted := false
		signer, err := keys.Load(path, func() ([]byte, error) {
			encrypted = true
			return passphrase()
		})
		if err != nil {
			return nil, err
		}
		f := file{Key: console.Key{ID: signer.Public().KeyID(), Name: filepath.Base(path), Encrypted: encrypted}, path: path}
		if !encrypted {
			f.signer = signer
		}
		signing.files = append(signing.files, f)
	}
	signing.send = func(ctx context.Context, entries []*entry.Entry) (uint64, error) {
		registered, err := c.Client.SubmitBatch(ctx, entries)
		if err != nil {
			return 0, err
		}
		return registered[len(registered)-1].Index, nil
	}
	return signing, nil
}

// Lease asks the ledger of a connection for the lease of a task. No entry proves the answer.
func Lease(c *access.Connection) func(ctx context.Context, task entry.Ref) (*api.Lease, error) {
	return func(ctx context.Context, task entry.Ref) (*api.Lease, error) {
		t, err := c.Client.Task(ctx, task)
		if err != nil {
			return nil, err
		}
		return t.Lease, nil
	}
}

// Commands asks the ledger of a connection for the commands of an agent. No entry proves the
// answer.
func Commands(c *access.Connection) func(ctx context.Context, agent entry.Principal) (*api.Commands, error) {
	return func(ctx context.Context, agent entry.Principal) (*api.Commands, error) {
		return c.Client.Commands(ctx, agent, api.CommandsQuery{})
	}
}

// Keys implements [console.Signing].
func (s *Signing) Keys() []console.Key {
	list := make([]console.Key, len(s.files))
	for i := range s.files {
		list[i] = s.files[i].Key
	}
	return list
}

// Unlock implements [console.Signing].
func (s *Signing) Unlock(_ context.Context, keyID string, by entry.Principal, passphrase, question string) (act.Signer, error) {
	for i := range s.files {
		f := &s.files[i]
		if f.ID != keyID {
			continue
		}
		signer, err := s.unlock(f, by, passphrase, question)
		if err != nil {
			return act.Signer{}, fmt.Errorf("%w: %w", console.ErrDeclined, err)
		}
		return act.Signer{Principal: by, Sign: signer.Sign}, nil
	}
	return act.Signer{}, fmt.Errorf("%w: the key %.60q is not at hand", console.ErrDeclined, keyID)
}

func (s *Signing) unlock(f *file, by entry.Principal, passphrase, question string) (*keys.Signer, error) {
	if !f.Encrypted {
		s.asking.Lock()
		defer s.asking.Unlock()
		return f.signer, s.confirm(fmt.Sprintf("%s. Sign this as %s?", question, by))
	}
	if passphrase == "" {
		return nil, errors.New("give the passphrase of the key")
	}
	signer, err := keys.Load(f.path, func() ([]byte, error) { return []byte(passphrase), nil })
	if err == nil && signer.Public().KeyID() != f.ID {
		err = fmt.Errorf("%s has another key than when the console started", f.path)
	}
	return signer, err
}

// Seal implements [console.Signing]. The source is free while the key signs, so that a slow KMS
// holds no page up.
func (s *Signing) Seal(by act.Signer, draft func(*act.Log) (*act.Draft, error)) ([]*entry.Entry, error) {
	return act.SealAside(s.read, by, draft)
}

// read calls show with the log of the source as it stands. The log does not change meanwhile.
func (s *Signing) read(show func(*act.Log) error) error {
	s.source.lock.Lock()
	defer s.source.lock.Unlock()
	at := s.source.now()
	if at.Reading != nil || at.Found != nil {
		return fmt.Errorf("%w: the log is not shown now", console.ErrDeclined)
	}
	return show(&act.Log{Origin: s.source.log.Root.Origin, State: s.source.fold.State, Now: at.Now})
}

// Register implements [console.Signing].
func (s *Signing) Register(ctx context.Context, entries []*entry.Entry) (uint64, error) {
	return s.send(ctx, entries)
}
