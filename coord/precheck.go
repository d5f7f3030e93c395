package coord

import (
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Precheck checks what needs no order, against a committed chain of the log of that
// origin: REG-3 to REG-5, and a policy by [CheckPolicy]. An entry whose signature was
// found good is marked, so that [State.Admit] need not check it again. Else Precheck
// refuses only what the order would refuse too, with the same answer. An unknown key is
// left to the order, since the entry that enrols it may be on its way; so are the rights of
// who signs policies and agents, since a policy may be.
func Precheck(chain *verify.Chain, origin string, check SignatureCheck, e *entry.Entry) error {
	if err := precheckSigned(chain, origin, check, e); err != nil {
		return err
	}
	if policy, ok := e.Body.(*entry.Policy); ok {
		if refusal := CheckPolicy(policy); refusal != nil {
			return refusal
		}
	}
	return nil
}

// precheckSigned is REG-3 to REG-5 of Precheck.
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
