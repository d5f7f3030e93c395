package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/failures"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// importOptions are the flags of arl entry import.
type importOptions struct {
	failures.Shape
	format, domain, instance, out, tokenKeys string
}

func (a *app) entryImportCommand(t *access.Target) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Register recorded agent runs from files",
		Long: "Turn recorded agent runs into signed entries, as their agents would have written them, and submit them in\n" +
			"batches: executions with their parents and progress, checkpoints, and a signal where a run failed. Each agent\n" +
			"gets a key in ARL_HOME, and the profile's operator enrols the agent. Importing the same files again registers\n" +
			"nothing twice, and continues an interrupted import. --instance registers the same runs once more, under other\n" +
			"ids. An execution context token (ect) is signed: with --token-keys, the command refuses tokens that none of\n" +
			"these keys signed.",
		Example: "  arl entry import --format openai-chat transcripts.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.machine().WithConnection(cmd.Context(), t, func(c *access.Connection) error { return a.importFiles(cmd.Context(), c, args, &o) })
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "", "format of the files: "+importer.Names()+" (required)")
	o.Register(cmd.Flags(), false)
	cmd.Flags().StringVar(&o.domain, "domain", "import", "domain of the agents that the import enrols")
	cmd.Flags().StringVar(&o.instance, "instance", "", "name of this import, to register the same runs under other ids")
	cmd.Flags().StringVar(&o.tokenKeys, "token-keys", "", "with ect: file of the issuers' public keys, a JSON Web Key Set (default: no signature is checked)")
	cmd.Flags().StringVar(&o.out, "out", "", "write the receipts, and all that is needed to verify their signers, to FILE")
	_ = cmd.MarkFlagRequired("format") // the flag exists
	return cmd
}

// importFiles registers the runs in files. It prints the result, also of an incomplete import.
func (a *app) importFiles(ctx context.Context, c *access.Connection, files []string, o *importOptions) error {
	if err := terminal.CheckOut(o.out); err != nil {
		return err
	}
	im, err := a.newImport(ctx, c, o)
	if err != nil {
		return err
	}
	if im.Shape, err = o.Read(&a.Terminal); err != nil {
		return err
	}
	if im.TokenKeys, err = a.tokenKeys(o); err != nil {
		return err
	}
	total := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		total += info.Size()
	}
	tell, end := a.NotedProgress("import", func() string { // what is read waits until its run is whole
		r, _ := im.Done()
		return fmt.Sprintf(" bytes read, %d registered", r.Registered)
	})
	im.Progress = func(done int64) { tell(uint64(done), uint64(total)) }
	for _, file := range files {
		if err = im.File(ctx, file, importer.Format(o.format)); err != nil {
			if read, ok := errors.AsType[*fs.PathError](err); ok && read.Op == "read" {
				err = exit.With(exit.IO, err)
			}
			break
		}
	}
	err = errors.Join(err, im.Flush(ctx))
	end()
	r, receipts := im.Done()
	if len(receipts) > 0 {
		if failed := c.WriteBundle(ctx, o.out, receipts); failed != nil {
			return errors.Join(err, failed)
		}
	}
	failed := a.PrintObject(r, terminal.Field{"files", fmt.Sprint(r.Files)}, terminal.Field{"cases", fmt.Sprint(r.Cases)}, terminal.Field{"skipped", fmt.Sprint(r.Skipped)},
		terminal.Field{"agents enrolled", fmt.Sprint(r.Agents)}, terminal.Field{"registered", fmt.Sprint(r.Registered)}, terminal.Field{"known before", fmt.Sprint(r.Known)})
	if failed == nil && r.Skipped > 0 {
		failed = exit.Usagef("%s could not be read", words.Counted(r.Skipped, "record"))
	}
	return errors.Join(err, failed)
}

// tokenKeys reads the keys of tokens, if they were passed.
func (a *app) tokenKeys(o *importOptions) (*importer.TokenKeys, error) {
	switch {
	case o.tokenKeys == "":
		return nil, nil //nolint:nilnil // no keys are no mistake
	case importer.Format(o.format) != importer.ECT:
		return nil, exit.Usagef("--token-keys: only the format ect has signatures")
	}
	data, err := a.ReadInput(o.tokenKeys, 1<<20)
	if err != nil {
		return nil, err
	}
	keys, err := importer.ParseTokenKeys(data)
	if err != nil {
		err = exit.Usagef("--token-keys %s: %w", o.tokenKeys, err)
	}
	return keys, err
}

// newImport loads the keys that an import signs with, and makes the missing keys.
func (a *app) newImport(ctx context.Context, c *access.Connection, o *importOptions) (*record.Import, error) {
	dir, err := a.trust().Path("keys", trust.FileName(c.Root.Origin), "agents")
	if err != nil {
		return nil, err
	}
	chain, err := c.Chain(ctx)
	if err != nil {
		return nil, err
	}
	machine := a.machine()
	enroller, err := machine.Signer(ctx, c, access.SignerFlags{}, node.Operator)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	secret, err := loadSecret(filepath.Join(dir, "secret"))
	return &record.Import{
		Ledger: c, Origin: c.Root.Origin, Chain: chain, Sign: enroller.Sign, Enroller: enroller.Principal, Domain: o.domain, Instance: o.instance,
		Secret: secret, SecretFile: dir, Receipts: o.out != "",
		Skipped: func(err error) { fmt.Fprintf(a.Err, "arl: %v\n", err) },
		Counted: func(file string, counts *importer.Counts) { a.Tell("%s: %s", file, counts) },
		Submit: func(ctx context.Context, entries []*entry.Entry) (receipts []verify.Receipt, err error) {
			results, err := c.Client.SubmitBatch(ctx, entries)
			for _, r := range results {
				receipts = append(receipts, r.Receipt)
			}
			return receipts, err
		},
		Key: func(agent entry.Principal) (*keys.Signer, string, error) {
			path := filepath.Join(dir, url.PathEscape(string(agent))+".key")
			key, err := machine.LoadKey(path)
			if errors.Is(err, fs.ErrNotExist) {
				key, err = keys.Generate(path, keys.Ed25519, machine.NewPassphrase)
			}
			return key, path, err
		},
	}, err
}

// loadSecret reads the secret that agents' secrets are derived from. It makes a missing secret. A
// crash meanwhile leaves no file.
func loadSecret(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		content = make([]byte, sha256.Size)
		_, _ = rand.Read(content) // never fails
		content = []byte(hex.EncodeToString(content))
		err = durable.Write(path, content, 0o600)
	}
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(string(content))
	if err != nil || len(secret) != sha256.Size {
		return nil, exit.With(exit.Config, fmt.Errorf("%s: want %d bytes in hexadecimal", path, sha256.Size))
	}
	return secret, nil
}
