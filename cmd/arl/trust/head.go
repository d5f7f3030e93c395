package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	cosign "github.com/transparency-dev/formats/note"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/audit"
	"recoveryledger/verify"
)

// WithCosigner adds the check of the ledger's ML-DSA-44 signatures.
func WithCosigner(root verify.Root) verify.Root {
	root.Cosigner = cosign.NewVerifierForCosignatureV1
	return root
}

// Head returns the tree head that was accepted last, or the head in the pinned root if that head is
// larger; nil if there is neither. Two heads that cannot be of one log are a [*verify.ForkError].
// Later heads must continue the returned head, so that no server can show two logs one after the
// other (AGT-1).
func (s *Store) Head(root verify.Root) (*verify.SignedHead, error) {
	kept, err := s.keptHead(root)
	if err != nil || root.Seen == "" {
		return kept, err
	}
	head, err := root.Head([]byte(root.Seen))
	if err != nil {
		return nil, fmt.Errorf("the tree head that the pinned root carries: %w", err)
	}
	switch {
	case kept == nil || head.Size > kept.Size:
		return &verify.SignedHead{Head: head, Note: root.Seen}, nil
	case head.Size == kept.Size && head.Root != kept.Root:
		return nil, &verify.ForkError{First: kept.Note, Second: root.Seen,
			Detail: fmt.Sprintf("the log of size %d has root %s in the head accepted here, and root %s in the pinned root", head.Size, kept.Root, head.Root)}
	}
	return kept, nil
}

func (s *Store) keptHead(root verify.Root) (*verify.SignedHead, error) {
	path, err := s.Path("heads", FileName(root.Origin)+".note")
	if err != nil {
		return nil, err
	}
	note, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, err := root.Head(note)
	if err != nil {
		return nil, fmt.Errorf("%s, the tree head that was accepted last: %w", path, err)
	}
	return &verify.SignedHead{Head: head, Note: string(note)}, nil
}

// SaveHead keeps the signed note of a tree head that was accepted.
func (s *Store) SaveHead(origin, note string) error {
	return s.write([]byte(note), "heads", FileName(origin)+".note")
}

// rootFile is the name of the file with a pinned root as policies have changed it.
func rootFile(origin string) string { return FileName(origin) + ".root.json" }

// Followed returns a pinned root with the ledger's keys that policies have named since.
func (s *Store) Followed(root verify.Root) (verify.Root, error) {
	path, err := s.Path("heads", rootFile(root.Origin))
	if err != nil {
		return root, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return root, nil
	}
	if err != nil {
		return root, err
	}
	kept, err := verify.ParseRoot(data)
	if err != nil {
		return root, exit.With(exit.Config, fmt.Errorf("%s, the ledger's keys as they were followed: %w", path, err))
	}
	return root.Advance(kept), nil
}

// KeepRoot saves a root that has followed a policy. The root is saved before a head counts that
// only the new keys have signed.
func (s *Store) KeepRoot(root verify.Root) error {
	root.Seen = "" // the accepted head is in a file of its own
	data, err := root.Encode()
	if err != nil {
		return err
	}
	return s.write(data, "heads", rootFile(root.Origin))
}

// Fold returns the place of the kept fold of a log.
func (s *Store) Fold(root verify.Root) (audit.Place, error) {
	path, err := s.Path("folds", FileName(root.Origin)+".fold")
	return audit.Place{Path: path, Root: root}, err
}

// Begun returns the place of what an interrupted audit of a log left.
func (s *Store) Begun(root verify.Root) (audit.Place, error) {
	place, err := s.Fold(root)
	place.Path, place.Begun = place.Path+".begun", true
	return place, err
}

// KeepEvidence writes the evidence of an inconsistent log to a file, and returns its path. The same
// evidence is the same file.
func (s *Store) KeepEvidence(kind string, v any) (string, error) {
	content, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	name := kind + "-" + hex.EncodeToString(sum[:8]) + ".json"
	if err := s.write(append(content, '\n'), "evidence", name); err != nil {
		return "", err
	}
	return s.Path("evidence", name)
}
