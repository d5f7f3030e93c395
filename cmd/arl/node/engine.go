package node

import (
	"github.com/spf13/pflag"

	"recoveryledger/api/attempts"
	"recoveryledger/api/server"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// Engine is the engine that records what the server decides about cases.
type Engine struct {
	key    string
	hourly int64
	signer *keys.Signer // nil: there is none
}

// Register adds the flags.
func (e *Engine) Register(flags *pflag.FlagSet) {
	flags.StringVar(&e.key, "engine-key", "", "key file, enrolled as an engine, that signs the attempts of POST /v1/recoveries (default: nothing is recorded)")
	flags.Int64Var(&e.hourly, "engine-quota", 0, "cases an hour that are recorded for clients without a certificate, all together")
}

// Load loads the engine's key, before anything tries the keys of the node.
func (e *Engine) Load(n *Node) (err error) {
	switch {
	case e.hourly < 0:
		return exit.Usagef("--engine-quota %d: want 0 or more", e.hourly)
	case e.key == "":
		return nil
	}
	if e.signer, err = keys.Load(e.key, n.passphrase); err != nil {
		return exit.KeyFile(err)
	}
	n.watch(keyEngine, e.signer.URI(), e.signer.Try, e.signer.Watch)
	return nil
}

// Begin has the server record, if there is a key.
func (e *Engine) Begin(n *Node, config *server.Config) {
	if e.signer == nil {
		return
	}
	signer := e.signer
	id, rules := signer.Public().KeyID(), &coord.Rules{}
	config.Attempts = attempts.New(attempts.Config{Submit: n.Log.SubmitOrDoubt, Origin: n.Origin, Sign: sealing(keyEngine, signer), Hourly: e.hourly,
		Owner: func() (entry.Principal, bool) { return n.Replica.View().Chain.Owner(id) },
		Log:   n, Roles: func() []entry.Role {
			key, _ := n.Replica.View().Chain.KeyInfo(id)
			return key.Roles
		},
		Known: func(task entry.Ref) (known bool) {
			n.Replica.Read(func(s *coord.State) { _, known = s.Task(task) })
			return known
		},
		Rules: func(digest entry.Digest) (found *recovery.Policy) {
			n.Replica.Read(func(s *coord.State) { found = s.Rollouts().Rules(rules.Of(s), digest) })
			return found
		}})
}
