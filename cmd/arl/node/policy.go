package node

import (
	"errors"
	"io"
	"os"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord"
	"recoveryledger/coord/policyfile"
	"recoveryledger/ledger/entry"
)

// FoundingPolicy reads the policy of a new ledger, which keeps an index or not; by default
// it is ours.
func FoundingPolicy(path string, index bool) (*entry.Policy, error) {
	if path == "" {
		return coord.Genesis(""), nil // the origin is not known yet
	}
	policy, err := LoadPolicy(path)
	if err == nil && policy.Authority != nil {
		err = exit.With(exit.Config, errors.New("a genesis policy is signed by the authority's key that is made here: leave authority out of the file, "+
			"and hand over later with arl policy apply"))
	}
	if err == nil && !index {
		err = withoutIndex(policy)
	}
	if err == nil && policy.LedgerKeys != nil {
		err = exit.With(exit.Config, errors.New("the key of a new ledger is made here: leave ledger_keys out of the file, and name it where another is to follow"))
	}
	return policy, err
}

// LoadPolicy reads a policy file. Header and previous are left to whoever signs
// it, and so is authority if the file names none.
func LoadPolicy(path string) (*entry.Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, policyfile.Max+1))
	if err != nil {
		return nil, exit.With(exit.IO, err)
	}
	policy, err := policyfile.Parse(path, data)
	if err == nil {
		err = policyfile.Obeyable(path, data, policy)
	}
	return policy, exit.With(exit.Config, err)
}
