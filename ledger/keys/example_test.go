package keys_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// An agent makes its key, signs a checkpoint and has the signature checked.
func Example() {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		log.Fatal(err)
	}
	signer, err := keys.Generate(filepath.Join(dir, "agent.key"), keys.Ed25519, nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := entry.New(&entry.Checkpoint{
		Header: entry.Header{
			V: 1, JTI: "0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21", Iss: "agent-1",
			Aud: "ledger.example.com/2026", Iat: 1790000000, Wid: "wf-1",
		},
		Checkpoint: "checkpoint-1",
		Digest:     "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := signer.Sign(e); err != nil {
		log.Fatal(err)
	}

	verifier, err := keys.NewVerifier(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(verifier.Check(signer.Public(), e.PAE(), e.Sig))
	fmt.Println(verifier.Check(signer.Public(), e.Payload(), e.Sig))
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// keys: the signature does not match
}
