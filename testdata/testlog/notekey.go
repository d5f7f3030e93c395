package testlog

import "golang.org/x/mod/sumdb/note"

// NoteKey returns the Ed25519 key of a log that its origin determines, and its verifier
// key: the same in every test.
func NoteKey(origin string) (note.Signer, note.Verifier, string) {
	skey, vkey, err := note.GenerateKey(zeros{}, origin)
	if err != nil {
		panic(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		panic(err)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		panic(err)
	}
	return signer, verifier, vkey
}

// zeros is a source of randomness that has zeros only: keys made from it are always the same.
type zeros struct{}

// Read implements [io.Reader].
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
