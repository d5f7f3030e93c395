// Package program has strategies of recovery that are programs: [Command] asks one, and
// [DecodeStrategies] reads which programs stand for the strategies of a policy.
package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/process"
)

const (
	// answerMax is the size limit of a program's answer, in bytes.
	answerMax = 64 << 10
	// strategiesMax is the size in bytes of a file of strategies.
	strategiesMax = 64 << 10
)

// Command is a strategy that is a program: a case as JSON on its standard input,
// an action as JSON on its standard output. It is started anew for every
// question, without a shell.
type Command struct {
	Argv []string
	// Is describes the strategy, and has the time limit of an answer.
	Is recovery.About
}

// About implements [recovery.RecoveryStrategy].
func (c *Command) About() recovery.About { return c.Is }

// Recover implements [recovery.RecoveryStrategy].
func (c *Command) Recover(ctx context.Context, of recovery.Case) (recovery.Action, error) {
	limit := time.Duration(cmp.Or(c.Is.TimeoutMS, recovery.AnswerMS)) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	question, err := json.Marshal(of, json.Deterministic(true))
	if err != nil {
		return recovery.Action{}, fmt.Errorf("program: encode question: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	stderr := process.Head{Limit: scenario.TextMax}
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(append(question, '\n')), &stderr, process.Grace
	answer, err := process.Run(cmd, answerMax)
	if cmd.Process != nil {
		process.End(cmd, syscall.SIGKILL) // the run does not wait for processes that the program left behind
	}
	switch {
	case errors.Is(err, process.ErrOutput):
		return recovery.Action{}, fmt.Errorf("program: strategy %s: %w", c.Argv[0], err)
	case ctx.Err() != nil:
		return recovery.Action{}, fmt.Errorf("program: strategy %s: no answer within %v: %w", c.Argv[0], limit, ctx.Err())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return recovery.Action{}, fmt.Errorf("program: strategy %s: %w: %s", c.Argv[0], err, stderr.Text)
	}
	return DecodeAnswer(answer)
}

// DecodeAnswer reads an action, and nothing else.
func DecodeAnswer(text []byte) (recovery.Action, error) {
	var a recovery.Action
	wrong := scenario.Document{What: "an action", Help: "docs/recovery-reference.md describes it"}.DecodeJSON(text, &a)
	if wrong == nil {
		wrong = scenario.CheckAction(&a)
	}
	if wrong != nil {
		return recovery.Action{}, fmt.Errorf("program: the answer of the strategy is not an action: %w", wrong)
	}
	return a, nil
}

// DecodeStrategies reads the programs of the strategies that a policy declares. The file is YAML,
// with a list of arguments for each name. The policy stands in a ledger, and the machine alone
// names its programs, so that no ledger can make a machine run a program. Relative programs are
// looked up in the directory where. The name stands in errors, which are [*Error].
func DecodeStrategies(name string, doc []byte, p *recovery.Policy, where string) ([]recovery.RecoveryStrategy, error) {
	var argvs map[string][]string
	const help = "write a line for each: name: [program, argument]"
	wrong := scenario.Document{What: "a list of strategies", Help: help, BytesMax: strategiesMax}.DecodeYAML(doc, &argvs)
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
