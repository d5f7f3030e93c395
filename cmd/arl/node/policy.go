package node

import (
	"errors"
	"io"
	"os"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/policyfile"
	"recoveryledger/ledger/entry"
)

// FoundingPolicy reads the policy of a new ledger. Without a path it returns the default policy.
// index says that the ledger keeps an index.
func FoundingPolicy(path string, index bool) (*entry.Policy, error) {
	if path == "" {
		return entry.Genesis(""), nil // the origin is not known yet
	}
	policy, err := LoadPolicy(path)
	if err == nil && policy.Authority != nil {
		err = exit.With(exit.Config, errors.New("the first start makes the authority's key, and this key signs the genesis policy: leave authority "+
			"out of the file, and name another authority later with arl policy apply"))
	}
	if err == nil && !index {
		err = withoutIndex(policy)
	}
	if err == nil && policy.LedgerKeys != nil {
		err = exit.With(exit.Config, errors.New("the first start makes the ledger's key: leave ledger_keys out of the file, and name keys later, when another key follows"))
	}
	return policy, err
}

// LoadPolicy reads a policy file. The signer of the policy adds header and previous, and also
// authority if the file has none.
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
