package run

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// DecodeStrategies reads which programs are the strategies that a policy
// declares: YAML, a list of arguments for each name. The policy is what is agreed
// upon, and stands in a ledger; which program a machine runs is the machine's own
// affair, so that no ledger can make it run one. Where is the directory that
// relative programs are looked up in; the name stands in errors, which are
// [*Error].
func DecodeStrategies(name string, doc []byte, p *recovery.Policy, where string) ([]recovery.RecoveryStrategy, error) {
	if len(doc) > strategiesBytesMax {
		return nil, &Error{Problem: entry.TooLarge, File: name, Detail: fmt.Sprintf("is larger than %d bytes", strategiesBytesMax), Remedy: "a line for each strategy is enough"}
	}
	declared := map[string]recovery.About{}
	for _, about := range p.Strategies() {
		declared[about.Name] = about
	}
	lines, wrong := strategyLines(doc)
	var all []recovery.RecoveryStrategy
	for i := range lines {
		l := &lines[i]
		if wrong != nil {
			break
		}
		if wrong = l.check(declared, lines[:i], where); wrong != nil {
			wrong.Line = l.line
			break
		}
		l.argv[0] = programAt(l.argv[0], where)
		all = append(all, &Command{Argv: l.argv, Is: declared[l.name]})
	}
	if wrong != nil {
		wrong.File = name
		return nil, wrong
	}
	return all, nil
}

// strategyLine is a strategy with its command line.
type strategyLine struct {
	name string
	argv []string
	line int
}

// strategyLines reads the document as it was parsed. Nothing of YAML is needed
// but names, lists and texts.
func strategyLines(doc []byte) ([]strategyLine, *Error) {
	const what, remedy = "is no list of strategies", "write a line for each: name: [program, argument]"
	if !utf8.Valid(doc) {
		return nil, malformed("", "has a character that is not UTF-8", "save it as UTF-8")
	}
	file, err := parser.ParseBytes(doc, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, notYAML(err, what, remedy)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, malformed("", what, remedy)
	}
	var members []*ast.MappingValueNode
	switch body := file.Docs[0].Body.(type) {
	case *ast.MappingNode:
		members = body.Values
	case *ast.MappingValueNode:
		members = []*ast.MappingValueNode{body}
	default:
		return nil, malformed("", what, remedy)
	}
	lines := make([]strategyLine, 0, len(members))
	for _, m := range members {
		l := strategyLine{line: m.GetToken().Position.Line}
		key, named := m.Key.(*ast.StringNode)
		list, listed := m.Value.(*ast.SequenceNode)
		if !named || !listed {
			return nil, &Error{Problem: entry.Malformed, Line: l.line, Detail: what, Remedy: remedy}
		}
		l.name = key.Value
		for _, element := range list.Values {
			text, ok := element.(*ast.StringNode)
			if !ok || strings.ContainsRune(text.Value, 0) {
				return nil, &Error{Problem: entry.Malformed, Line: l.line, Detail: fmt.Sprintf("%.60q has an argument that is no text", l.name), Remedy: "put it in quotes"}
			}
			l.argv = append(l.argv, text.Value)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (l *strategyLine) check(declared map[string]recovery.About, before []strategyLine, where string) *Error {
	name, argv := l.name, l.argv
	if slices.ContainsFunc(before, func(b strategyLine) bool { return b.name == name }) {
		return malformed("/"+name, "stands here twice", "remove one of the two")
	}
	if _, ok := declared[name]; !ok {
		known := slices.Sorted(maps.Keys(declared))
		remedy := "declare it in the policy: strategies, with name, version and capabilities"
		if near := entry.Nearest(name, known); near != "" {
			remedy = "did you mean " + near + "?"
		}
		return malformed("/"+name, fmt.Sprintf("%.60q is no strategy that the policy declares", name), remedy)
	}
	if len(argv) == 0 {
		return malformed("/"+name, "has no program", "write a list: [program, argument]")
	}
	if _, err := exec.LookPath(programAt(argv[0], where)); err != nil {
		return malformed("/"+name, fmt.Sprintf("%.60q is no program", argv[0]), "name a program that is installed, or its path from this file's directory")
	}
	return nil
}

// programAt returns the path of a program that is given by one relative to a
// directory. A mere name is looked up in PATH, and a path never becomes one, though
// the directory be the current one.
func programAt(program, where string) string {
	if filepath.Base(program) == program || filepath.IsAbs(program) {
		return program
	}
	path := filepath.Join(where, program)
	if filepath.Base(path) == path {
		return "." + string(filepath.Separator) + path
	}
	return path
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

// Commands are the command lines of those strategies that are programs; nil if
// there are none.
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
