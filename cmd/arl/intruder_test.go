//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/damage"
)

// intruder is a program that has somebody's key, and prints envelopes that this principal's own
// programs would not make. ORIGIN is the origin of the ledger.
//
//	intruder executions KEY ISSUER N        N executions
//	intruder forged KEY ISSUER N            the same, with a signature that the key did not make
//	intruder authorize KEY ISSUER INCIDENT  an authorize of an incident, whether ISSUER may make it or not
func intruder() {
	if err := intrude(os.Args[1], os.Args[2], entry.Principal(os.Args[3]), os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func intrude(what, key string, issuer entry.Principal, of string) error {
	signer, err := keys.Load(key, nil)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(of, 10, 64)
	if err != nil {
		return err
	}
	header := func() entry.Header { return keys.NewHeader(issuer, os.Getenv("ORIGIN")) }
	if what == "authorize" {
		decision, err := drafted(number)
		if err != nil {
			return err
		}
		wid := decision.Wid
		decision.Header = header()
		decision.Wid = wid
		return printSigned(signer, decision, false)
	}
	for range number {
		x := &entry.Execution{Header: header(), Exec: uuid.NewString(), Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
		x.Wid = "w"
		if err := printSigned(signer, x, what == "forged"); err != nil {
			return err
		}
	}
	return nil
}

// printSigned prints a body as an envelope on one line.
func printSigned(signer *keys.Signer, body entry.Body, forged bool) error {
	e, err := entry.New(body)
	if err != nil {
		return err
	}
	if err := signer.Sign(e); err != nil {
		return err
	}
	if forged {
		e.Seal(e.KeyID, make([]byte, len(e.Sig)))
	}
	_, err = fmt.Printf("%s\n", e.AppendEnvelope(nil))
	return err
}

// drafted returns the decision that would put the plan of an incident into force, from the log of
// the ledger that the profile names.
func drafted(incident uint64) (decision *entry.Decision, err error) {
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.settings.home = os.Getenv("ARL_HOME")
	err = a.machine().WithFold(context.Background(), &access.Where{}, func(l *access.Log, f *access.Fold) error {
		var err error
		decision, err = f.State.Draft(coord.Order{Incident: incident, Act: entry.ActAuthorize, Reason: "nobody asked"}, l.Clock(f))
		return err
	})
	return decision, err
}

// scriptDamage damages an entry in the database of the stopped ledger.
func scriptDamage(ts *testscript.TestScript, _ bool, args []string) {
	e, err := entry.Decode([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	data := ts.MkAbs("data")
	switch args[0] {
	case "flip":
		bits := e.Sig[8:24]
		err = damage.Flip(data, bits)
		if err != nil {
			bits[0] ^= 1 // it was flipped before
			err = damage.Flip(data, bits)
		}
	case "lose":
		err = damage.Lose(data, e.Sig)
	default:
		ts.Fatalf("damage flip or lose, not %s", args[0])
	}
	ts.Check(err)
}
