package main

import (
	"errors"

	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
)

// flagError completes an error of a flag. For an unknown flag it suggests a known flag. For an
// invalid value it describes the values of the flag.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var known []string
		cmd.Flags().VisitAll(func(flag *pflag.Flag) { known = append(known, "--"+flag.Name) })
		return exit.Usagef("%w%s", err, entry.Suggest("--"+unknown.GetSpecifiedName(), known))
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		switch want, is := wanted(flag.Value.Type()); {
		case is:
			return exit.Usagef("--%s %s: want %s", flag.Name, invalid.GetValue(), want)
		default:
			return exit.Usagef("--%s %s: %w", flag.Name, invalid.GetValue(), invalid.Unwrap())
		}
	}
	return exit.Usagef("%w", err)
}

// wanted describes the values of a type of flags.
func wanted(kind string) (description string, known bool) {
	switch {
	case kind == "uint64":
		return "a whole number from 0 on", true
	case strings.HasPrefix(kind, "int"):
		return "a whole number", true
	case kind == "float64":
		return "a number", true
	case kind == "bool":
		return "true or false", true
	case kind == "duration":
		return "a duration, such as 30s or 5m", true
	}
	return "", false
}

// argumentError adds the form of the command line to an error of the arguments.
func argumentError(cmd *cobra.Command, args []string, err error) error {
	if _, own := errors.AsType[*exit.Error](err); own {
		return err
	}
	line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	if len(args) > 0 && !strings.ContainsAny(cmd.Use, " ") {
		return exit.Usagef("%s takes no argument, and got %q (for example:%s)", cmd.CommandPath(), args[0], strings.TrimPrefix(cmd.Example, " "))
	}
	return exit.Usagef("%w: want %s (for example:%s)", err, line, strings.TrimPrefix(cmd.Example, " "))
}

// optional is a flag for a whole number from 0 on that may be left out.
type optional struct{ value *int64 }

// Set implements [pflag.Value].
func (o *optional) Set(text string) error {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 {
		return errors.New("not a whole number from 0 on")
	}
	o.value = &value
	return nil
}

// index returns the value as an index into the log; nil if it was left out.
func (o *optional) index() *uint64 {
	if o.value == nil {
		return nil
	}
	at := uint64(*o.value)
	return &at
}

// String implements [pflag.Value].
func (o *optional) String() string {
	if o.value == nil {
		return ""
	}
	return strconv.FormatInt(*o.value, 10)
}

// Type implements [pflag.Value].
func (*optional) Type() string { return "uint64" }

// redacted is a flag for text that stays in the log. The text passes the redactor.
type redacted string

// Set implements [pflag.Value].
func (r *redacted) Set(text string) error {
	*r = redacted(redact.Text(text))
	return nil
}

// String implements [pflag.Value].
func (r *redacted) String() string { return string(*r) }

// Type implements [pflag.Value].
func (*redacted) Type() string { return "string" }

// needReason adds the flag --reason, which is required.
func needReason(cmd *cobra.Command, reason *string) {
	cmd.Flags().Var((*redacted)(reason), "reason", "reason, which stands in the entry: write no content of prompts or messages (required)")
	_ = cmd.MarkFlagRequired("reason") // the flag exists
}

// completeFlags lets the shell complete the values of flags with few values.
func (a *app) completeFlags(cmd *cobra.Command) {
	values := map[string]func(*cobra.Command) []string{
		"profile": func(*cobra.Command) []string { names, _ := a.trust().Profiles(); return names },
		"kind":    func(*cobra.Command) []string { return texts(entry.Kinds()) },
		"roles":   func(*cobra.Command) []string { return texts(entry.Roles()) },
		"class":   func(*cobra.Command) []string { return entry.Classes() },
		"code":    func(cmd *cobra.Command) []string { return entry.Codes(cmd.Flag("class").Value.String()) },
		"output":  func(*cobra.Command) []string { return []string{terminal.OutputTable, terminal.OutputJSON} },
	}
	// Looked up by name: cobra merges and sorts the flags of a command that it visits, half of the
	// work of making the commands.
	for name, known := range values {
		if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return known(cmd), cobra.ShellCompDirectiveNoFileComp
			}) // each flag once, so that nothing is refused
		}
	}
}

func texts[T ~string](list []T) []string {
	all := make([]string, len(list))
	for i, one := range list {
		all[i] = string(one)
	}
	return all
}
