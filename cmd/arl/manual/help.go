// Package manual writes the texts of commands about themselves: the help of a command, and the
// manual page of all commands.
package manual

import (
	"strings"

	"recoveryledger/cmd/arl/terminal"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help returns the help of a command. No line is wider than width, unless a single word is wider.
func Help(cmd *cobra.Command, width int) string {
	var b strings.Builder
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	b.WriteString(terminal.WrapText(long, width) + "\n")
	section := func(title string, rows [][2]string) {
		if len(rows) > 0 {
			b.WriteString("\n" + lipgloss.NewStyle().Bold(true).Render(title) + "\n")
			terminal.WriteRows(&b, rows, width)
		}
	}
	section("Usage:", [][2]string{{usageLine(cmd), ""}})
	if cmd.Example != "" {
		section("Example:", [][2]string{{terminal.WrapCommand(strings.TrimSpace(cmd.Example), width), ""}})
	}
	var verbs [][2]string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			verbs = append(verbs, [2]string{sub.Name(), sub.Short})
		}
	}
	section("Commands:", verbs)
	section("Flags:", flagRows(commandFlags(cmd), cmd.Root().PersistentFlags()))
	section("Flags of every command:", flagRows(cmd.Root().PersistentFlags(), nil))
	return b.String()
}

// usageLine returns the form of a command line. Flags stand before two dashes.
func usageLine(cmd *cobra.Command) string {
	line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	if before, after, ok := strings.Cut(line, " -- "); ok {
		return before + " [flags] -- " + after
	}
	return line + " [flags]"
}

// commandFlags returns the flags of a command and of the nouns above it.
func commandFlags(cmd *cobra.Command) *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.AddFlagSet(cmd.LocalFlags())
	all.AddFlagSet(cmd.InheritedFlags())
	return all
}

// flagRows describes the flags that are not in without.
func flagRows(flags, without *pflag.FlagSet) (rows [][2]string) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || without != nil && without.Lookup(flag.Name) != nil {
			return
		}
		name := "    --" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", --" + flag.Name
		}
		if value := Placeholder(flag); value != "" {
			name += " " + value
		}
		rows = append(rows, [2]string{name, FlagUsage(flag)})
	})
	return rows
}

// FlagUsage returns the usage of a flag, with its default once.
func FlagUsage(flag *pflag.Flag) string {
	text := flag.Usage
	value := strings.Trim(flag.DefValue, "[]")
	if strings.Contains(text, "default") || value == "" || value == "0" || value == "0s" || value == "false" {
		return text
	}
	return text + " (default " + value + ")"
}

// Placeholder returns the word for the value of a flag in help: the kind of the value. It is empty
// for a flag without a value.
func Placeholder(flag *pflag.Flag) string {
	if kind := flag.Value.Type(); kind == strings.ToUpper(kind) { // a type that names its value
		return kind
	}
	if named := flag.Annotations[valueAnnotation]; len(named) == 1 {
		return named[0]
	}
	if known, ok := Placeholders[flag.Name]; ok && flag.Value.Type() != "bool" {
		return known
	}
	switch kind := flag.Value.Type(); {
	case kind == "bool":
		return ""
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "N"
	case kind == "float64":
		return "NUMBER"
	case kind == "duration":
		return "DURATION"
	}
	return ""
}

// valueAnnotation is the annotation of a flag with the word of [NameValue].
const valueAnnotation = "arl_value"

// NameValue sets the kind of value of a flag of one command, if flags of its name take another kind
// in other commands.
func NameValue(flags *pflag.FlagSet, flag, value string) {
	_ = flags.SetAnnotation(flag, valueAnnotation, []string{value}) // the flag exists
}

// Placeholders names the value of each flag that takes text. A flag means the same kind of value in
// every command, except for flags of [NameValue].
var Placeholders = map[string]string{
	"accept-loss": "REASON", "accepted": "FILE", "after": "INDEX", "agent": "PRINCIPAL", "algorithm": "NAME", "anchor": "FILE", "coordinator-key": "URI", "at": "TIME", "authority-key": "FILE",
	"baseline": "FILE", "capabilities": "WORD,…", "case": "FILE", "class": "CLASS", "code": "CODE",
	"before": "INDEX", "compromised-since": "INDEX", "confirm": "SOURCE", "corroborated": "INDEX,…", "crash": "EXECUTION",
	"data": "DIR", "detail": "TEXT", "dir": "DIR", "domain": "NAME", "effect": "EFFECT",
	"effects": "EFFECTS", "evidence": "DIGEST,…", "exec": "PROGRAM", "expect": "TYPE:VALUE:LABEL", "export": "DIR", "metrics": "FILE",
	"mutation": "NAME,…", "window": "WHEN", "format": "FORMAT", "from": "INDEX", "gates": "GATE,…",
	"head": "FILE", "home": "DIR", "host": "NAME", "hooks": "NAME,…", "idempotent": "NAME,…", "incident": "INDEX", "index": "INDEX",
	"engine-key": "FILE", "etcd-listen": "ADDRESS", "etcd-quota": "BYTES", "join": "TOKEN", "node": "NAME", "peer-advertise": "ADDRESS",
	"peer-listen": "ADDRESS", "instance": "NAME", "key": "FILE|URI", "keyid": "FINGERPRINT", "kind": "KIND,…", "last-known-good": "REF",
	"ledger": "DIR|URL", "listen": "ADDRESS", "live": "FILE", "log": "KEY", "member": "EXECUTION,…", "monitor": "URL", "name": "NAME",
	"newest": "HEAD", "notify": "FILE", "publish": "LOCATION", "to": "LOCATION",
	"origin": "NAME", "out": "FILE", "output": "FORM", "param": "NAME=FIRST..LAST", "payload": "FILE",
	"policy": "FILE", "principal": "PRINCIPAL", "probe": "COMMAND", "profile": "NAME",
	"public-key": "BASE64", "reason": "TEXT", "replay-safety": "WORD", "reserve": "BYTES", "roles": "ROLE,…", "root": "FILE", "rows": "FILE", "salt": "NAME", "stage": "STAGE",
	"scenario": "FILE", "secret": "FILE", "severity": "WORD", "signer": "FILE|URI", "simulate": "FILE",
	"since": "WHEN", "span": "SPAN", "standing": "STANDING", "state": "STATE", "status": "WORD",
	"strategies": "FILE", "strategy": "COMMAND", "subject": "EXECUTION", "supersedes": "INDEX", "token-keys": "FILE", "why": "EXECUTION",
	"tag": "TAG", "task": "TASK", "tls-ca": "FILE", "tls-cert": "FILE", "tls-client-ca": "FILE",
	"tls-key": "FILE", "type": "CAPABILITY", "dismiss": "INDEX,…", "until": "TIME", "url": "URL",
	"witness": "NAME=URL", "witness-boot": "WORD", "without": "NODE", "workflow": "ID",
}
