package main

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

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

// keyInfo is what is said of a key: never the private part.
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
		Long: "Make a private key in a new file that only its owner can read; a file that exists is never touched.\n" +
			"With --passphrase, or where " + passphraseVariable + " is set, it is encrypted (--passphrase=false: never).",
		Example: "  arl key generate --out agent.key",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			signer, err := keys.Generate(out, keys.Algorithm(algorithm), a.forNewKeys(encrypt))
			if errors.Is(err, fs.ErrExist) {
				return withExit(exitConflict, fmt.Errorf("%s exists: choose another name", out))
			}
			if errors.Is(err, fs.ErrNotExist) {
				return output(out, err)
			}
			if err != nil {
				return err
			}
			return a.printKey(out, signer.Public())
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to make (mandatory)")
	cmd.Flags().StringVar(&algorithm, "algorithm", string(keys.Ed25519), fmt.Sprintf("kind of the key: %s|%s", keys.Ed25519, keys.ECDSAP256))
	encryptFlag(cmd.Flags(), &encrypt, "the file")
	_ = cmd.MarkFlagRequired("out") // the flag exists
	return cmd
}

func (a *app) keyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE",
		Short:   "Show a key's public half and fingerprint",
		Example: "  arl key show agent.key",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signer, err := a.loadKey(args[0])
			if err != nil {
				return err
			}
			return a.printKey(args[0], signer.Public())
		},
	}
}

func (a *app) printKey(file string, public entry.PublicKey) error {
	info := keyInfo{File: file, Algorithm: algorithmOf(public), KeyID: public.KeyID(), PublicKey: public}
	return a.printObject(info, field{"file", file}, field{"algorithm", string(info.Algorithm)},
		field{"keyid", info.KeyID}, field{"public key", public.String()})
}

func algorithmOf(public entry.PublicKey) keys.Algorithm {
	if _, ok := public.Crypto().(*ecdsa.PublicKey); ok {
		return keys.ECDSAP256
	}
	return keys.Ed25519
}

// loadKey reads a key file.
func (a *app) loadKey(path string) (*keys.Signer, error) {
	signer, err := keys.Load(path, a.passphrase)
	return signer, unusableKey(err)
}

// unusableKey is the error of a key file. One that cannot be used as it is is a
// matter of configuration.
func unusableKey(err error) error {
	switch {
	case errors.Is(err, keys.ErrPassphrase):
		return fmt.Errorf("%w (pass the one that the file was made with, typed or in %s)", err, passphraseVariable)
	case err != nil && exitCode(err) == exitInternal:
		return withExit(exitConfig, err)
	}
	return err
}

// unusableLedgerKeys is unusableKey for the keys of a ledger, which lie in dir.
func unusableLedgerKeys(dir string, err error) error {
	if errors.Is(err, keys.ErrDamaged) {
		return withExit(exitConfig, &remedyError{fmt.Sprintf("restore the file from a backup of %s: nobody continues this ledger without the keys "+
			"that the policy in force names", dir), err})
	}
	return unusableKey(err)
}
