package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"recoveryledger/ledger/keys"
)

// passphraseVariable is the environment variable that answers for a passphrase
// instead of a person.
const passphraseVariable = "ARL_PASSPHRASE"

// passphrase implements [keys.Passphrase] for key files that exist.
func (a *app) passphrase() ([]byte, error) {
	if secret := os.Getenv(passphraseVariable); secret != "" {
		return []byte(secret), nil
	}
	return a.askSecret("Passphrase: ")
}

// newPassphrase is passphrase for a new file: a person types it twice.
func (a *app) newPassphrase() ([]byte, error) {
	if secret := os.Getenv(passphraseVariable); secret != "" {
		return []byte(secret), nil
	}
	first, err := a.askSecret("New passphrase: ")
	if err != nil {
		return nil, err
	}
	second, err := a.askSecret("Once more: ")
	if err == nil && !bytes.Equal(first, second) {
		err = usage("the two passphrases differ")
	}
	return first, err
}

// encryptFlag is a command's say in whether key files that it makes are
// encrypted: by default where the environment has a passphrase.
func encryptFlag(flags *pflag.FlagSet, encrypt *bool, what string) {
	flags.BoolVar(encrypt, "passphrase", passphraseGiven(), "encrypt "+what+" with a passphrase, asked for or from "+passphraseVariable)
}

func passphraseGiven() bool { return os.Getenv(passphraseVariable) != "" }

// forNewKeys returns the passphrase of key files that are made; nil if they are
// not to be encrypted.
func (a *app) forNewKeys(encrypt bool) keys.Passphrase {
	if !encrypt {
		return nil
	}
	return a.newPassphrase
}

// once asks once, for several files. Nil stays nil.
func once(p keys.Passphrase) keys.Passphrase {
	if p == nil {
		return nil
	}
	return sync.OnceValues(p)
}

func (a *app) askSecret(prompt string) ([]byte, error) {
	f, ok := a.in.(*os.File)
	if !ok || !isTerminal(f) {
		return nil, usage("no terminal to ask for the passphrase: set %s", passphraseVariable)
	}
	fmt.Fprint(a.err, prompt)
	secret, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(a.err)
	return secret, err
}

// confirm asks before something that cannot be undone; the preview has been
// shown. yes answers for a person.
func (a *app) confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !isTerminal(a.in) {
		return usage("no terminal to ask %q: pass --yes", question)
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return withExit(exitInterrupted, errors.New("not confirmed: nothing was changed"))
	}
	return nil
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows how far a long command has come, on a terminal only. It returns
// a function to be told, and one to be called in the end.
func (a *app) progress(name string) (tell func(done, total uint64), end func()) {
	if !isTerminal(a.err) {
		return func(uint64, uint64) {}, func() {}
	}
	container := mpb.New(mpb.WithOutput(a.err), mpb.WithWidth(60))
	bar := container.AddBar(0,
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d", decor.WCSyncSpace), decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace)))
	tell = func(done, total uint64) {
		bar.SetTotal(int64(total), false)
		bar.SetCurrent(int64(done))
	}
	end = func() {
		bar.Abort(true)
		container.Wait()
	}
	return tell, end
}
