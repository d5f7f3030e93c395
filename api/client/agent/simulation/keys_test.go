package simulation

import (
	"crypto/ed25519"
	"crypto/sha256"
	"sync"

	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// keyring has the keys of everybody, the same in every run, and the verdicts on
// signatures that were seen before. One goroutine owns it, but for check.
type keyring struct {
	pairs      map[string]pair
	mu         sync.Mutex // guards verdicts while check is called
	verdicts   map[[sha256.Size]byte]error
	signer     note.Signer
	vkey       string
	beginnings map[string][]*entry.Entry // of logs, by who is in them
	turn       uint64
}

type pair struct {
	private ed25519.PrivateKey
	public  entry.PublicKey
}

func newKeyring() (*keyring, error) {
	k := &keyring{pairs: map[string]pair{}, verdicts: map[[sha256.Size]byte]error{}, beginnings: map[string][]*entry.Entry{}}
	skey, vkey, err := note.GenerateKey(endless{}, origin)
	if err == nil {
		k.vkey = vkey
		k.signer, err = note.NewSigner(skey)
	}
	return k, err
}

// endless is a source of the same bytes for ever.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i + 7)
	}
	return len(p), nil
}

// of returns the key that a name stands for.
func (k *keyring) of(name string) pair {
	p, ok := k.pairs[name]
	if !ok {
		sum := sha256.Sum256([]byte(name))
		private := ed25519.NewKeyFromSeed(sum[:])
		public, err := entry.NewPublicKey(private.Public())
		if err != nil {
			panic(err) // no Ed25519 key that the library makes is refused
		}
		p = pair{private, public}
		k.pairs[name] = p
	}
	return p
}

// sign signs an entry with the key that a name stands for: RFC 8032 has one
// signature, and this library takes two thirds of the time. What was signed here
// needs no check, but some of it is checked all the same.
func (k *keyring) sign(e *entry.Entry, name string) {
	p := k.of(name)
	e.Seal(p.public.KeyID(), voi.Sign(voi.PrivateKey(p.private), e.PAE()))
	if k.turn++; k.turn%64 != 0 {
		k.verdicts[signed(p.public, e.PAE(), e.Sig)] = nil
	}
}

func signed(key entry.PublicKey, message, sig []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write([]byte(key.KeyID()))
	h.Write(sig)
	h.Write(message)
	return [sha256.Size]byte(h.Sum(nil))
}

// check is [verify.Signature] with a memory.
func (k *keyring) check(key entry.PublicKey, message, sig []byte) error {
	of := signed(key, message, sig)
	k.mu.Lock()
	defer k.mu.Unlock()
	verdict, known := k.verdicts[of]
	if !known {
		verdict = verify.Signature(key, message, sig)
		k.verdicts[of] = verdict
	}
	return verdict
}

// forget keeps the memory small between runs.
func (k *keyring) forget() {
	if len(k.verdicts) > 1<<16 {
		clear(k.verdicts)
	}
}
