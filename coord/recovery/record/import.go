package record

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// importBatch is how many entries travel in one request.
const importBatch = 512

// ErrKey reports that the key of an agent no longer counts.
var ErrKey = errors.New("record: the key is no longer valid")

// Import registers recorded runs of other systems, as entries that the agents in them would have
// written. An entry that is already in the log is not registered again.
type Import struct {
	// Ledger is where runs are looked up that were registered before.
	Ledger Ledger
	// Submit registers entries in order, and returns the receipts of those before the
	// first refusal.
	Submit func(ctx context.Context, entries []*entry.Entry) ([]verify.Receipt, error)
	// Origin is that of the ledger, and Chain its policies and keys as of now.
	Origin string
	Chain  *verify.Chain
	// Sign signs in the name of Enroller, who may enrol agents under Domain.
	Sign     func(*entry.Entry) error
	Enroller entry.Principal
	Domain   string
	// Instance is a name that makes the same runs other ones.
	Instance string
	// Key returns the key of an agent, and the name of its file. It makes a key for an
	// agent that has none.
	Key func(agent entry.Principal) (key *keys.Signer, file string, err error)
	// Secret is the value that the agents' secrets are derived from. SecretFile names the value in
	// errors.
	Secret     []byte
	SecretFile string
	// TokenKeys are what the tokens of [importer.ECT] are checked by. Nil: no signature is checked.
	TokenKeys *importer.TokenKeys
	// Shape says what tools do, and which results are dependencies.
	Shape importer.Shape
	// Receipts is whether receipts are kept.
	Receipts bool
	// Skipped is told of a record that cannot be read.
	Skipped func(error)
	// Counted is told what became of the records of a file, as far as the file was read.
	Counted func(file string, counts *importer.Counts)
	// Progress is told how many bytes of all files were read.
	Progress func(read int64)

	agents  map[entry.Principal]*importedAgent
	pending []*entry.Entry
	read    int64
	report  ImportReport
	kept    []verify.Receipt
}

// ImportReport is the result of an import.
type ImportReport struct {
	Files      int `json:"files"`
	Cases      int `json:"cases"`
	Skipped    int `json:"skipped"` // records that could not be read
	Agents     int `json:"agents"`  // enrolled now
	Registered int `json:"registered"`
	Known      int `json:"known"` // registered before
}

// importedAgent is an agent that the import speaks for.
type importedAgent struct {
	key    *keys.Signer
	secret []byte
}

// Done returns the counts so far, and the kept receipts.
func (im *Import) Done() (ImportReport, []verify.Receipt) { return im.report, im.kept }

// File registers the runs of a file. The last of them may wait for Flush.
func (im *Import) File(ctx context.Context, path string, format importer.Format) (err error) {
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
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	stream := &importer.EntryBuilder{Origin: im.Origin, File: string(entry.DigestFrom(digest.Sum(nil))), Instance: im.Instance}
	counts := &importer.Counts{NoInputs: true}
	defer func() {
		if err == nil || counts.Records > 0 {
			im.Counted(path, counts)
		}
	}()
	for found, err := range im.cases(format, filepath.ToSlash(name), f, counts) {
		var unreadable *scenario.Error
		switch {
		case errors.As(err, &unreadable) && unreadable.Record > 0:
			im.Skipped(err)
			im.report.Skipped++
		case err != nil:
			return err
		default:
			if wrong := im.Shape.Apply(&found); wrong != nil {
				counts.Refuse(wrong)
				wrong.File = name
				return wrong
			}
			if err := im.add(ctx, stream, found); err != nil {
				counts.Refuse(err)
				return err
			}
		}
		im.Progress(im.read)
	}
	im.report.Files++
	return nil
}

// cases reads a file.
func (im *Import) cases(format importer.Format, name string, file io.Reader, counts *importer.Counts) iter.Seq2[scenario.Case, error] {
	counted := &importer.CountedReader{Reader: file, Count: &im.read}
	if format == importer.ECT {
		return importer.ImportTokens(name, counted, im.TokenKeys, counts)
	}
	return importer.Import(format, name, counted, counts)
}

// add takes up the entries of a case that are not in the log yet.
func (im *Import) add(ctx context.Context, stream *importer.EntryBuilder, c scenario.Case) error {
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
				return &markedError{ErrOther, fmt.Sprintf("case %s: %s is in the log with other content: the agents' secret in %s, --edges or --tools is another one", c.ID, e.Header.JTI, im.SecretFile)}
			}
			im.report.Known++
			continue
		}
		if err := im.agents[e.Header.Iss].key.Sign(e); err != nil {
			return err
		}
		if im.pending = append(im.pending, e); len(im.pending) >= importBatch {
			if err := im.Flush(ctx); err != nil {
				return err
			}
		}
	}
	im.report.Cases++
	return nil
}

// known returns the entries of a workflow that are in the log, by id.
func (im *Import) known(ctx context.Context, wid entry.WorkflowID) (map[string]*entry.Entry, error) {
	found := map[string]*entry.Entry{}
	for e, err := range registered(ctx, im.Ledger, entry.ByWorkflow, string(wid)) {
		if err != nil {
			return nil, err
		}
		found[e.Header.JTI] = e.Entry
	}
	return found, nil
}

// enrol makes sure that the log knows the agent by the key that is here.
func (im *Import) enrol(p entry.Principal) error {
	if im.agents[p] != nil {
		return nil
	}
	key, file, err := im.Key(p)
	if err != nil {
		return err
	}
	if im.agents == nil {
		im.agents = map[entry.Principal]*importedAgent{}
	}
	mac := hmac.New(sha256.New, im.Secret)
	mac.Write([]byte(p))
	im.agents[p] = &importedAgent{key: key, secret: mac.Sum(nil)}
	switch owner, counts := im.Chain.Owner(key.Public().KeyID()); {
	case owner == p && counts:
		return nil
	case owner != "":
		return &markedError{ErrKey, fmt.Sprintf("the key %s of %s is no longer valid: move the file away, and import under another --instance", file, p)}
	}
	e, err := entry.New(&entry.Agent{Header: keys.NewHeader(im.Enroller, im.Origin), Principal: p, Op: entry.Enrol, Key: key.Public(),
		Roles: []entry.Role{entry.RoleAgent}, Domain: im.Domain, Span: entry.SpanWorkflow})
	if err != nil {
		return err
	}
	if err := im.Sign(e); err != nil {
		return err
	}
	im.report.Agents++
	im.pending = append(im.pending, e)
	return nil
}

// Flush registers the entries that wait.
func (im *Import) Flush(ctx context.Context) error {
	if len(im.pending) == 0 {
		return nil
	}
	receipts, err := im.Submit(ctx, im.pending)
	im.report.Registered += len(receipts)
	if im.Receipts {
		im.kept = append(im.kept, receipts...)
	}
	if err != nil && len(receipts) < len(im.pending) {
		refused := im.pending[len(receipts)]
		err = fmt.Errorf("%s entry of %s: %w", refused.Kind, refused.Header.Iss, err)
	}
	im.pending = nil
	return err
}

// markedError is an error in its own words that [errors.Is] finds as kind.
type markedError struct {
	kind error
	text string
}

// Error implements error.
func (e *markedError) Error() string { return e.text }

// Unwrap returns the kind.
func (e *markedError) Unwrap() error { return e.kind }
