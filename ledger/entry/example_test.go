package entry_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"recoveryledger/ledger/entry"
)

// An agent makes an execution, signs it, and sends the envelope; whoever gets it
// reads the same.
func ExampleNew() {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	key, err := entry.NewPublicKey(private.Public())
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: "0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21", Iss: "agent-1", Aud: "example.com/log", Iat: 1790000000, Wid: "wf-1"},
		Exec:   "exec-1", Effect: entry.EffectNone, Progress: entry.Planned,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	e.Seal(key.KeyID(), ed25519.Sign(private, e.PAE()))
	received, err := entry.Decode(e.AppendEnvelope(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", received.Payload())
	fmt.Println(received.Kind, received.KeyID)
	// Output:
	// {"aud":"example.com/log","effect":"none","exec":"exec-1","iat":1790000000,"iss":"agent-1","jti":"0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21","parents":[],"progress":"planned","v":1,"wid":"wf-1"}
	// execution SHA256:tAXFyTXI8xtDaujAEcwJslAYc9/6FKcUkd2Lw0xDhPo
}

// A refusal names the member at fault.
func ExampleDecode() {
	_, err := entry.Decode([]byte(`{"payload":"e30=","payloadType":"application/vnd.agent-recovery.signal+json","signatures":[]}`))
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		fmt.Println(refusal.Problem, "at", refusal.Field+":", refusal.Detail)
	}
	// Output: malformed at signatures: 0 signatures, want exactly one
}
