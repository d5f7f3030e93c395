package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/program"
)

// strategyOptions are the flags that name the programs of the policy's strategies.
type strategyOptions struct {
	// file has a command line for each strategy.
	file         string
	allowMissing bool
	// asksNobody is set by a command that asks no strategy.
	asksNobody bool
}

// flagAllowMissing lets ladders decide in place of strategies that are missing.
const flagAllowMissing = "allow-missing-strategies"

func (o *strategyOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.file, "strategies", "", "file that names the program of each strategy of the policy (docs/policy.md)")
	flags.BoolVar(&o.allowMissing, flagAllowMissing, false, "let the rule's ladder decide if a strategy is not registered")
}

// strategies returns the programs of the policy's strategies. If a strategy of a rule has no
// program, the configuration is wrong: the ladder would decide in its place, and the gates would
// judge another policy.
func (a *app) strategies(o *strategyOptions, p *recovery.Policy) ([]recovery.RecoveryStrategy, error) {
	registered, err := a.registeredIn(o.file, p)
	if err != nil {
		return nil, err
	}
	if missing := p.Missing(registered); len(missing) > 0 && !o.allowMissing {
		return nil, exit.With(exit.Config, &recovery.Error{Problems: o.problems(missing)})
	}
	return registered, nil
}

// registeredIn reads a file of strategies. Without a file it returns none.
func (a *app) registeredIn(path string, p *recovery.Policy) ([]recovery.RecoveryStrategy, error) {
	if path == "" {
		return nil, nil
	}
	document, err := a.ReadGiven(path, policyMax)
	if err != nil {
		return nil, err
	}
	all, err := program.DecodeStrategies(path, document, p, filepath.Dir(path))
	return all, exit.With(exit.Config, err)
}

// problems returns the rules that name an unregistered strategy, with their remedy.
func (o *strategyOptions) problems(missing []recovery.Unregistered) []recovery.Problem {
	problems := make([]recovery.Problem, 0, len(missing))
	for _, m := range missing {
		m.Fix = fmt.Sprintf("pass --strategies FILE with the line %s: [PROGRAM], or pass --%s: then the rule's ladder decides", m.Strategy, flagAllowMissing)
		if o.asksNobody {
			m.Fix = fmt.Sprintf("this command asks no strategy: pass --%s, and the rule's ladder decides", flagAllowMissing)
		}
		problems = append(problems, m.Problem)
	}
	return problems
}

// lintStrategies returns the rules of a policy file that name an unregistered strategy. The file
// has no other mistake.
func (a *app) lintStrategies(file string, data []byte, o *strategyOptions) ([]recovery.Problem, error) {
	p, err := recovery.Load(file, data)
	if err != nil || o.allowMissing || len(p.Missing(nil)) == 0 {
		return nil, err
	}
	registered, err := a.registeredIn(o.file, p)
	return o.problems(p.Missing(registered)), err
}
