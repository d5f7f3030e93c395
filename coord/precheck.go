package coord

import (
	"recoveryledger/coord/sound"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Precheck checks the rules that need no order, against a committed chain of the log of that
// origin: REG-3 to REG-5, and a policy by [sound.Policy]. It marks an entry whose signature is
// good, so that [State.Admit] need not check the signature again. Else Precheck refuses only what
// the order would refuse too, with the same answer. It leaves an unknown key to the order, because
// the entry that enrols the key may be on its way. It leaves the rights of the signer of a policy
// or an agent entry to the order too, because a policy may be on its way.
func Precheck(chain *verify.Chain, origin string, check SignatureCheck, e *entry.Entry) error {
	if err := precheckSigned(chain, origin, check, e); err != nil {
		return err
	}
	if policy, ok := e.Body.(*entry.Policy); ok {
		if refusal := sound.Policy(policy); refusal != nil {
			return refusal
		}
	}
	return nil
}

// precheckSigned checks REG-3 to REG-5 for Precheck.
func precheckSigned(chain *verify.Chain, origin string, check SignatureCheck, e *entry.Entry) error {
	if err := checkAudience(e, origin); err != nil { // REG-3
		return err
	}
	key, ok := chain.Key(e.KeyID)
	if !ok {
		return nil
	}
	_, refusal := chain.Signer(e) // REG-4
	mayChange := e.Kind == entry.KindPolicy || e.Kind == entry.KindAgent
	if refusal != nil && !mayChange {
		return refusal
	}
	if err := checkSignature(check, key, e); err != nil { // REG-5
		if refusal != nil {
			return refusal
		}
		return err
	}
	e.SignatureChecked = true
	return nil
}
