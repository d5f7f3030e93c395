package ask_test

import (
	"fmt"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/ask"
)

// A live loop asks about an error that its tool raised, and is told to wait and to try again.
func ExampleDecode() {
	question, err := ask.Decode([]byte(`{"history": {"case": "order-7", "step": "search", "effect": "none"},
		"error": {"http_status": 503, "text": "Service Unavailable"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	decision := question.Decide(recovery.Default())
	fmt.Println(decision.Failure, decision.Rule, decision.Action)
	// Output: transient.unavailable transient.unavailable[0] retry after 255 ms: ladder
}
