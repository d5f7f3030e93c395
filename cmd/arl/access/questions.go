package access

import (
	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/verify"
)

// Questions are the questions that a history must answer, from the flags.
type Questions struct {
	Expect     []string // TYPE:VALUE:LABEL
	Size, From uint64   // of the log, and the first index; 0: as the history has it
}

// Register adds the flags.
func (q *Questions) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&q.Expect, "expect", nil, "what a history must answer: type and value of a subject, and a label or *")
	flags.Uint64Var(&q.Size, "size", 0, "answer for the first N entries of the log (default: as many as the history is about)")
	flags.Uint64Var(&q.From, "from", 0, "answer for the entries from INDEX on")
}

// All returns the questions in the form of package verify. The error is a usage error.
func (q *Questions) All() (all []verify.Question, err error) {
	for _, text := range q.Expect {
		list, err := verify.ParseQuestions(text)
		if err != nil {
			return nil, exit.Usagef("--expect %s: %v", text, err)
		}
		for _, one := range list {
			one.From, one.Size = q.From, q.Size
			all = append(all, one)
		}
	}
	if len(all) == 0 && (q.Size > 0 || q.From > 0) {
		return nil, exit.Usagef("--size and --from belong to a question: pass --expect TYPE:VALUE:LABEL")
	}
	return all, nil
}
