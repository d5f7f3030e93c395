package engine

import (
	"slices"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/program"
)

// missing returns the names of the strategies that rules name and nothing
// implements, each once, in the order of their rules.
func missing(p *recovery.Policy, registered []recovery.RecoveryStrategy) []string {
	var names []string
	for _, m := range p.Missing(registered) {
		if !slices.Contains(names, m.Strategy) {
			names = append(names, m.Strategy)
		}
	}
	return names
}

// commands returns the command lines of the strategies that are programs; nil if there are none.
func commands(all []recovery.RecoveryStrategy) map[string][]string {
	var commands map[string][]string
	for _, s := range all {
		if c, ok := s.(*program.Command); ok {
			if commands == nil {
				commands = map[string][]string{}
			}
			commands[c.Is.Name] = c.Argv
		}
	}
	return commands
}
