package consoles

import (
	"context"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/doctor"
)

// Examine returns what makes the checks of arl doctor on this machine.
func Examine(m *access.Machine, o *access.Where) func(ctx context.Context, tell func(words.Finding)) {
	return func(ctx context.Context, tell func(words.Finding)) {
		// The verdict counts what the findings say.
		_, _ = doctor.Examine(ctx, m, o, nil, func(f words.Finding) error {
			tell(f)
			return nil
		})
	}
}
