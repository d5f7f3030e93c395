package failures

import (
	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
)

// Classify are the flags of arl classify.
type Classify struct {
	Code, GRPC string
	Status     int
	Answer     bool
	Policy     string // file whose patterns count, too
}

// Register adds the flags.
func (o *Classify) Register(flags *pflag.FlagSet) {
	flags.StringVar(&o.Code, "code", "", "code of a provider or framework, or the name of an exception")
	flags.IntVar(&o.Status, "status", 0, "HTTP status")
	flags.StringVar(&o.GRPC, "grpc", "", "name of a gRPC status code, such as UNAVAILABLE")
	flags.StringVar(&o.Policy, "policy", "", "policy file whose patterns count, too")
	flags.BoolVar(&o.Answer, "answer", false, "the text is the answer of a tool: first say whether it is a failure")
}

// Run classifies a message, or standard input for "-", and says why.
func (o *Classify) Run(a *terminal.Terminal, text string) error {
	if text == "-" {
		input, err := a.ReadInput("-", inputMax)
		if err != nil {
			return err
		}
		text = string(input)
	}
	raw := scenario.RawError{Text: text}
	if o.Answer {
		answer, failed := scenario.FailureIn(text)
		if !failed {
			return a.PrintObject(map[string]string{"label": "ok"}, terminal.Field{"class", "ok"}, terminal.Field{"by", "the form of the answer, which says nothing of a failure"})
		}
		raw = answer
	}
	if o.Code != "" {
		raw.ProviderCode = o.Code
	}
	if o.GRPC != "" {
		raw.GRPCCode = o.GRPC
	}
	if o.Status != 0 {
		raw.HTTPStatus = o.Status
	}
	raw.Text, raw.ProviderCode = scenario.Cut(raw.Text, scenario.TextMax), scenario.Cut(raw.ProviderCode, scenario.CodeMax)
	if wrong := raw.Check(); wrong != nil {
		return exit.Usagef("%w", wrong)
	}
	var rules *recovery.Policy
	if o.Policy != "" {
		var err error
		if rules, err = loadRules(a, o.Policy); err != nil {
			return err
		}
	}
	e := scenario.ExplainBy(raw, rules)
	by := e.Cause
	if by == "" {
		by = "nothing: no code, status, pattern, form or phrase is known"
	}
	refused := "not known: it may have had its effect"
	if e.Refused {
		refused = "refused before any effect"
	}
	return a.PrintObject(e, terminal.Field{"class", e.Label.Class}, terminal.Field{"code", e.Label.Code}, terminal.Field{"by", by},
		terminal.Field{"call", refused}, terminal.Field{"changed by", e.Change})
}
