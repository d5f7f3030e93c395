package bundle_test

import (
	"fmt"

	"recoveryledger/verify/bundle"
)

// obey is what an agent does with a bundle. It stores what it accepted before it
// looks at anything else.
func obey(accepted bundle.Accepted, received []byte, now int64, store func(bundle.Accepted)) error {
	b, err := bundle.Decode(received)
	if err != nil {
		return err
	}
	verdict, err := b.Check(accepted, now)
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
	w, b := approved(exampleTB{}, plain)
	received, err := b.Encode()
	if err == nil {
		err = obey(w.state(), received, w.now, func(bundle.Accepted) {})
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
