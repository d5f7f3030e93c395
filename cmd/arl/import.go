package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// importOptions are the flags of arl entry import.
type importOptions struct {
	format, domain, instance, out string
}

func (a *app) entryImportCommand(t *target) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Register the agent runs in files that others recorded",
		Long: "Turn recorded agent runs into signed entries, as their agents would have written them, and submit them in\n" +
			"batches: executions with their parents and progress, checkpoints, and a signal where a run failed.\n" +
			"Each agent gets a key in ARL_HOME and is enrolled by the profile's operator. Importing again registers nothing\n" +
			"twice and goes on where the last time ended; --instance registers the same runs once more, as others.\n" +
			"Formats: openai-chat, attempts, toolbench, galaxy.",
		Example: "  arl entry import --format openai-chat transcripts.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withConnection(cmd.Context(), t, func(c *connection) error { return a.importFiles(cmd.Context(), c, args, &o) })
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "", "form of the files: openai-chat|attempts|toolbench|galaxy (mandatory)")
	cmd.Flags().StringVar(&o.domain, "domain", "import", "domain under which agents are enrolled")
	cmd.Flags().StringVar(&o.instance, "instance", "", "name of this import, to register the same runs as others")
	cmd.Flags().StringVar(&o.out, "out", "", "file for the receipts, with those of the policies and keys that they count by")
	_ = cmd.MarkFlagRequired("format") // the flag exists
	return cmd
}

// importReport is what arl entry import prints.
type importReport struct {
	Files      int `json:"files"`
	Cases      int `json:"cases"`
	Skipped    int `json:"skipped"` // records that could not be read
	Agents     int `json:"agents"`  // enrolled now
	Registered int `json:"registered"`
	Known      int `json:"known"` // registered before
}

func (a *app) importFiles(ctx context.Context, c *connection, files []string, o *importOptions) error {
	if err := checkOut(o.out); err != nil {
		return err
	}
	im, err := a.newImporter(ctx, c, o)
	if err != nil {
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
	tell, end := a.progress("import")
	im.progress = func(done int64) { tell(uint64(done), uint64(total)) }
	for _, file := range files {
		if err = im.file(ctx, file); err != nil {
			break
		}
	}
	err = errors.Join(err, im.flush(ctx))
	end()
	return errors.Join(err, im.finish(ctx))
}

// finish says what was done, whether or not all of it was.
func (im *entryImport) finish(ctx context.Context) error {
	if im.o.out != "" && len(im.receipts) > 0 {
		if err := im.c.writeBundle(ctx, im.o.out, im.receipts); err != nil {
			return err
		}
	}
	r := im.report
	err := im.app.printObject(r, field{"files", fmt.Sprint(r.Files)}, field{"cases", fmt.Sprint(r.Cases)}, field{"skipped", fmt.Sprint(r.Skipped)},
		field{"agents enrolled", fmt.Sprint(r.Agents)}, field{"registered", fmt.Sprint(r.Registered)}, field{"known before", fmt.Sprint(r.Known)})
	if err == nil && r.Skipped > 0 {
		err = usage("%d records could not be read", r.Skipped)
	}
	return err
}

// importBatch is how many entries travel in one request.
const importBatch = 512

// entryImport is one import on its way.
type entryImport struct {
	app      *app
	c        *connection
	o        *importOptions
	chain    *verify.Chain
	enroller *signer
	dir      string // of the agents' keys
	master   []byte // of the agents' secrets

	agents   map[entry.Principal]*importedAgent
	pending  []*entry.Entry
	receipts []verify.Receipt // kept if they are asked for
	report   importReport

	read     int64 // bytes of all files so far
	progress func(done int64)
}

// importedAgent is an agent that the import speaks for.
type importedAgent struct {
	signer *keys.Signer
	secret []byte
}

func (a *app) newImporter(ctx context.Context, c *connection, o *importOptions) (*entryImport, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	im := &entryImport{app: a, c: c, o: o, agents: map[entry.Principal]*importedAgent{},
		dir: filepath.Join(home, "keys", profileName(c.root.Origin), "agents")}
	if im.chain, err = c.chain(ctx); err != nil {
		return nil, err
	}
	if im.enroller, err = a.signer(ctx, c, signerFlags{}, principalOperator); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(im.dir, 0o700); err != nil {
		return nil, err
	}
	im.master, err = loadSecret(filepath.Join(im.dir, "secret"))
	return im, err
}

// loadSecret reads the secret that agents' secrets come from, or makes it. A
// crash while it is made leaves none.
func loadSecret(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		content = []byte(hex.EncodeToString(newSecret()))
		err = durable.Write(path, content, 0o600)
	}
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(string(content))
	if err != nil || len(secret) != sha256.Size {
		return nil, withExit(exitConfig, fmt.Errorf("%s: want %d bytes in hexadecimal", path, sha256.Size))
	}
	return secret, nil
}

// keyed derives a secret for one purpose.
func keyed(master []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, master)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

func newSecret() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return secret
}

func (im *entryImport) file(ctx context.Context, path string) error {
	// The last parts of the name give the ids of workflows (and, where a file is
	// one run, of its case): absolute, it is the same whatever directory the
	// command runs in. The ids of entries begin with the content's digest.
	name, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return withExit(exitIO, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	stream := &importer.EntryBuilder{Origin: im.c.root.Origin, File: string(entry.DigestFrom(digest.Sum(nil))), Instance: im.o.instance}
	for found, err := range importer.Import(importer.Format(im.o.format), filepath.ToSlash(name), &countedReader{f, &im.read}) {
		var unreadable *scenario.Error
		switch {
		case errors.As(err, &unreadable) && unreadable.Record > 0:
			fmt.Fprintf(im.app.err, "arl: %v\n", err)
			im.report.Skipped++
		case err != nil:
			return err
		default:
			if err := im.add(ctx, stream, found); err != nil {
				return err
			}
		}
		im.progress(im.read)
	}
	im.report.Files++
	return nil
}

// countedReader counts the bytes that are read through it.
type countedReader struct {
	r     io.Reader
	count *int64
}

// Read implements [io.Reader].
func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.count += int64(n)
	return n, err
}

// add takes up the entries of a case that are not in the log yet.
func (im *entryImport) add(ctx context.Context, stream *importer.EntryBuilder, c scenario.Case) error {
	for _, agent := range importer.Writers(c) {
		if err := im.enrol(agent); err != nil {
			return err
		}
	}
	known, err := im.known(ctx, stream.Workflow(c))
	if err != nil {
		return err
	}
	now := time.Now().Unix()
	stream.Secret = func(agent entry.Principal) []byte { return im.agents[agent].secret }
	stream.Iat = func(jti string) int64 {
		if e, ok := known[jti]; ok {
			return e.Header.Iat
		}
		return now
	}
	for _, body := range stream.Entries(c) {
		e, err := entry.New(body)
		if err != nil {
			return fmt.Errorf("case %s: %w", c.ID, err)
		}
		if there, ok := known[e.Header.JTI]; ok {
			if string(there.Payload()) != string(e.Payload()) {
				return withExit(exitConflict, fmt.Errorf("case %s: %s is in the log with other content: the agents' secret in %s is another one", c.ID, e.Header.JTI, im.dir))
			}
			im.report.Known++
			continue
		}
		if err := im.agents[e.Header.Iss].signer.Sign(e); err != nil {
			return err
		}
		if err := im.queue(ctx, e); err != nil {
			return err
		}
	}
	im.report.Cases++
	return nil
}

// known returns the entries of a workflow that are in the log, by id.
func (im *entryImport) known(ctx context.Context, wid entry.WorkflowID) (map[string]*entry.Entry, error) {
	found := map[string]*entry.Entry{}
	for e, err := range im.c.client.Entries(ctx, client.Query{Workflow: wid, Page: api.MaxPage}) {
		if err != nil {
			return nil, err
		}
		found[e.Header.JTI] = e.Entry.Entry
	}
	return found, nil
}

// enrol makes sure that the log knows the agent by the key that is here.
func (im *entryImport) enrol(p entry.Principal) error {
	if im.agents[p] != nil {
		return nil
	}
	agent := &importedAgent{secret: keyed(im.master, string(p))}
	path := filepath.Join(im.dir, url.PathEscape(string(p))+".key")
	var err error
	if agent.signer, err = im.app.loadKey(path); errors.Is(err, fs.ErrNotExist) {
		agent.signer, err = keys.Generate(path, keys.Ed25519, im.app.forNewKeys(passphraseGiven()))
	}
	if err != nil {
		return err
	}
	im.agents[p] = agent
	switch owner, counts := im.chain.Owner(agent.signer.Public().KeyID()); {
	case owner == p && counts:
		return nil
	case owner != "":
		return withExit(exitDenied, fmt.Errorf("the key %s of %s no longer counts: move it away and import under another --instance", path, p))
	}
	body := &entry.Agent{Header: newHeader(im.enroller.principal, im.c.root.Origin), Principal: p, Op: entry.Enrol, Key: agent.signer.Public(),
		Roles: []entry.Role{entry.RoleAgent}, Domain: im.o.domain, Span: entry.SpanWorkflow}
	e, err := entry.New(body)
	if err != nil {
		return err
	}
	if err := im.enroller.Sign(e); err != nil {
		return err
	}
	im.report.Agents++
	im.pending = append(im.pending, e)
	return nil
}

func (im *entryImport) queue(ctx context.Context, e *entry.Entry) error {
	if im.pending = append(im.pending, e); len(im.pending) < importBatch {
		return nil
	}
	return im.flush(ctx)
}

// flush submits what waits.
func (im *entryImport) flush(ctx context.Context) error {
	if len(im.pending) == 0 {
		return nil
	}
	results, err := im.c.client.SubmitBatch(ctx, im.pending)
	im.report.Registered += len(results)
	if im.o.out != "" {
		for _, r := range results {
			im.receipts = append(im.receipts, r.Receipt)
		}
	}
	if err != nil && len(results) < len(im.pending) {
		err = fmt.Errorf("%s entry of %s: %w", im.pending[len(results)].Kind, im.pending[len(results)].Header.Iss, err)
	}
	im.pending = nil
	return err
}
