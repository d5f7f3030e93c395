package coord_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// A ledger begins with a policy; whoever it has not let in is refused.
func Example() {
	const origin = "ledger.example/log"
	sign := func(body entry.Body, name string) *entry.Entry {
		private := ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%32s", name)))
		public, err := entry.NewPublicKey(private.Public())
		if err != nil {
			panic(err)
		}
		if policy, ok := body.(*entry.Policy); ok {
			policy.Authority = []entry.AuthorityKey{{Principal: policy.Iss, Key: public}}
		}
		e, err := entry.New(body)
		if err != nil {
			panic(err)
		}
		e.Seal(public.KeyID(), ed25519.Sign(private, e.PAE()))
		return e
	}
	const now = 1_790_000_000
	genesis := entry.Genesis(origin)
	genesis.JTI, genesis.Iss, genesis.Iat = "01996c2f-0a75-7a5c-8d64-3f0d2ad6f1b0", "authority@example.com", now
	step := &entry.Execution{
		Header: entry.Header{V: 1, JTI: "01996c2f-0a75-7a5c-8d64-3f0d2ad6f1b1", Iss: "agent@example.com", Aud: origin, Iat: now, Wid: "w"},
		Exec:   "1", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	}

	state := coord.NewState(origin)
	e := sign(genesis, "authority")
	fmt.Println(state.Admit(e, 0, now*1000))
	state.Apply(e, 0, now*1000)
	refusal, _ := errors.AsType[*entry.Refusal](state.Admit(sign(step, "agent"), 1, now*1000))
	fmt.Println(refusal.Problem, refusal.Remedy)

	// Output:
	// <nil>
	// unknown-issuer enrol the key, or sign with an enrolled key
}
