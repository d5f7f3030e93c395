package engine

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/process"
)

// DecodeStrategies reads the programs of the strategies that a policy declares. The file is YAML,
// with a list of arguments for each name. The policy stands in a ledger, and the machine alone
// names its programs, so that no ledger can make a machine run a program. Relative programs are
// looked up in the directory where. The name stands in errors, which are [*Error].
func DecodeStrategies(name string, doc []byte, p *recovery.Policy, where string) ([]recovery.RecoveryStrategy, error) {
	var argvs map[string][]string
	const help = "write a line for each: name: [program, argument]"
	wrong := scenario.Document{What: "a list of strategies", Help: help, BytesMax: strategiesBytesMax}.DecodeYAML(doc, &argvs)
	if wrong == nil && len(argvs) == 0 {
		wrong = scenario.Malformed("", "is no list of strategies", help)
	}
	var all []recovery.RecoveryStrategy
	for _, strategy := range slices.Sorted(maps.Keys(argvs)) {
		if wrong != nil {
			break
		}
		c := &Command{Argv: argvs[strategy]}
		if wrong = c.declare(strategy, p.Strategies(), where); wrong != nil {
			wrong.Line = scenario.LineInYAML(doc, wrong.Field)
		}
		all = append(all, c)
	}
	if wrong != nil {
		wrong.File = name
		return nil, wrong
	}
	return all, nil
}

// declare gives a command the name and the declaration of a strategy of the policy.
func (c *Command) declare(name string, declared []recovery.About, where string) *scenario.Error {
	field, known := string(jsontext.Pointer("").AppendToken(name)), []string{}
	for _, about := range declared {
		known = append(known, about.Name)
	}
	at := slices.Index(known, name)
	switch {
	case at < 0:
		remedy := "declare it in the policy: strategies, with name, version and capabilities"
		if near := entry.Nearest(name, known); near != "" {
			remedy = "did you mean " + near + "?"
		}
		return scenario.Malformed(field, fmt.Sprintf("%.60q is no strategy that the policy declares", name), remedy)
	case len(c.Argv) == 0:
		return scenario.Malformed(field, "has no program", "write a list: [program, argument]")
	case slices.ContainsFunc(c.Argv, func(argument string) bool { return strings.ContainsRune(argument, 0) }):
		return scenario.Malformed(field, "has an argument that is not a text", "remove the byte 0")
	}
	program := process.Program(c.Argv[0], where)
	if _, err := exec.LookPath(program); err != nil {
		return scenario.Malformed(field, fmt.Sprintf("%.60q is not a program", c.Argv[0]), "name a program that is installed, or its path from this file's directory")
	}
	c.Is, c.Argv[0] = declared[at], program
	return nil
}

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

// Commands returns the command lines of the strategies that are programs; nil if there are none.
func Commands(all []recovery.RecoveryStrategy) map[string][]string {
	var commands map[string][]string
	for _, s := range all {
		if c, ok := s.(*Command); ok {
			if commands == nil {
				commands = map[string][]string{}
			}
			commands[c.Is.Name] = c.Argv
		}
	}
	return commands
}
