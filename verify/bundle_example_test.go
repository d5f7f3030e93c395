package verify_test

import (
	"fmt"

	"recoveryledger/verify"
)

// obey is what an agent does with a bundle. It stores what it accepted before it
// looks at anything else.
func obey(accepted verify.Accepted, received []byte, now int64, store func(verify.Accepted)) error {
	bundle, err := verify.DecodeBundle(received)
	if err != nil {
		return err
	}
	verdict, err := bundle.Check(accepted, now)
	store(verdict.Next)
	if err != nil {
		return err
	}
	if !verdict.Confirmed {
		return nil // first contact: ask a second source first
	}
	for _, command := range verdict.Commands {
		switch {
		case command.Refused != nil:
			fmt.Println(command.Exec, "is to be refused:", command.Refused)
		case command.Result == "" && command.Released:
			fmt.Println(command.Method, command.Exec, command.Checkpoint, command.Standing)
		}
	}
	return nil
}

func ExampleBundle_Check() {
	w, bundle := approved(exampleTB{}, plain)
	received, err := bundle.Encode()
	if err == nil {
		err = obey(w.state(), received, w.now, func(verify.Accepted) {})
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// residual worker#mail  []
	// restore worker#memo worker#c0 [worker#mail]
	// none worker#note  []
	// cancel worker#later  []
	// restore worker#draft worker#c0 [worker#mail]
}
