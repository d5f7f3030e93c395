package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
)

// printError writes an error, and its remedy if one is known. It keeps the evidence of an
// inconsistent log in a file, unless a file of the user already has the evidence.
func (a *app) printError(w io.Writer, err error) {
	if errors.Is(err, context.Canceled) && exit.Code(err) == exit.Interrupted {
		err = exit.With(exit.Interrupted, errors.New("interrupted"))
	}
	say := func(format string, args ...any) { fmt.Fprint(w, terminal.Fitted(w, fmt.Sprintf(format, args...))) }
	say("arl: %v\n", err)
	if do := exit.Remedy(err); do != "" {
		say("Remedy: %s\n", do)
	}
	if name := exit.Problem(err); name != "" {
		say("More: arl explain %s\n", name)
	}
	found, ok := exit.Contradicted(err)
	if !ok {
		return
	}
	path := found.File
	if path == "" {
		path, err = a.trust().KeepEvidence(found.Kind, found.Evidence)
		if err != nil {
			say("The evidence could not be kept: %v\n", err)
			return
		}
	}
	say("Evidence: %s\n", path)
}
