package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

func (a *app) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Short:   "Make and show private keys",
		Example: "  arl key generate --out agent.key",
	}
	cmd.AddCommand(a.keyGenerateCommand(), a.keyShowCommand(), a.keyNextCommand())
	return cmd
}

// keyInfo is the output about a key. It never has the private part.
type keyInfo struct {
	File      string          `json:"file"`
	Algorithm keys.Algorithm  `json:"algorithm"`
	KeyID     string          `json:"keyid"`
	PublicKey entry.PublicKey `json:"public_key"`
}

func (a *app) keyGenerateCommand() *cobra.Command {
	var out, algorithm string
	var encrypt bool
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make a private key in a new file",
		Long: "Make a private key in a new file that only its owner can read. The command never changes an existing file.\n" +
			"With --passphrase, or where " + exit.PassphraseVariable + " is set, the key is encrypted (--passphrase=false: never).",
		Example: "  arl key generate --out agent.key",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			signer, err := keys.Generate(out, keys.Algorithm(algorithm), a.ForNewKeys(encrypt))
			if errors.Is(err, fs.ErrExist) {
				return exit.With(exit.Conflict, fmt.Errorf("%s exists: choose another name", out))
			}
			if errors.Is(err, fs.ErrNotExist) {
				return exit.Output(out, err)
			}
			if err != nil {
				return err
			}
			return a.printKey(out, signer.Public())
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "new key file (required)")
	cmd.Flags().StringVar(&algorithm, "algorithm", string(keys.Ed25519), fmt.Sprintf("kind of the key: %s|%s", keys.Ed25519, keys.ECDSAP256))
	encryptFlag(cmd.Flags(), &encrypt, "the file")
	_ = cmd.MarkFlagRequired("out") // the flag exists
	return cmd
}

func (a *app) keyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE|URI",
		Short:   "Show a key's public half and fingerprint",
		Example: "  arl key show agent.key",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signer, err := a.machine().LoadKey(args[0])
			if public, of := keys.LedgerPublic(args[0], a.Passphrase); err != nil && of == nil {
				return a.printKey(args[0], public)
			} else if err != nil {
				return err
			}
			return a.printKey(args[0], signer.Public())
		},
	}
}

func (a *app) printKey(file string, public entry.PublicKey) error {
	info := keyInfo{File: file, Algorithm: keys.AlgorithmOf(public), KeyID: public.KeyID(), PublicKey: public}
	return a.PrintObject(info, terminal.Field{"file", file}, terminal.Field{"algorithm", string(info.Algorithm)},
		terminal.Field{"keyid", info.KeyID}, terminal.Field{"public key", public.String()})
}

// encryptFlag adds the flag that encrypts new key files. By default they are encrypted if the
// environment has a passphrase.
func encryptFlag(flags *pflag.FlagSet, encrypt *bool, what string) {
	flags.BoolVar(encrypt, "passphrase", terminal.PassphraseGiven(), "encrypt "+what+" with a passphrase, asked for or from "+exit.PassphraseVariable)
}
