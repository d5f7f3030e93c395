package client_test

import (
	"context"
	"fmt"
	"log"

	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// An agent logs what it is about to do and holds the receipt before it acts.
func ExampleClient_Submit() {
	submit := func(ctx context.Context, root verify.Root, key *keys.Signer, x *entry.Execution) (*client.Registration, error) {
		ledger, err := client.New("https://ledger.example", root, nil)
		if err != nil {
			return nil, err
		}
		e, err := entry.New(x)
		if err != nil {
			return nil, err
		}
		if err := key.Sign(e); err != nil {
			return nil, err
		}
		return ledger.Submit(ctx, e)
	}
	_ = submit
}

// A monitor follows the log and sees every signal once, proven.
func ExampleClient_Events() {
	follow := func(ctx context.Context, ledger *client.Client, from uint64) error {
		for e, err := range ledger.Events(ctx, from) {
			if err != nil {
				return err
			}
			if signal, ok := e.Body.(*entry.Signal); ok {
				log.Printf("entry %d: %s says %s.%s about %s", e.Index, signal.Iss, signal.Class, signal.Code, signal.Subject)
			}
		}
		return nil
	}
	_ = follow
}

// A client refuses a ledger that it cannot name.
func ExampleNew() {
	_, err := client.New("ledger.example", verify.Root{}, nil)
	fmt.Println(err)
	// Output: client: new: "ledger.example": want http://host or https://host, and a path at most
}
