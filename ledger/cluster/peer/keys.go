package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/durable"
)

// ReadKeys reads the files of a directory of keys, by their paths in it.
func ReadKeys(dir string) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			all[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("peer: read the keys: %w", err)
	}
	return all, nil
}

// keys takes the key files that this node lacks, and answers which these were. It takes none if a
// file is here with other content.
func (s *Server) keys(r *http.Request) (any, error) {
	var sent map[string][]byte
	if err := json.UnmarshalRead(io.LimitReader(r.Body, answerMax), &sent); err != nil {
		return nil, fmt.Errorf("peer: keys: %w", err)
	}
	lacking := []string{}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("peer: a key is named %q", name)
		}
		switch have, err := os.ReadFile(s.keyPath(name)); {
		case errors.Is(err, fs.ErrNotExist):
			lacking = append(lacking, name)
		case err != nil:
			return nil, err
		case !bytes.Equal(have, sent[name]):
			return nil, fmt.Errorf("peer: %s has another %s: nothing is taken", s.cfg.Node.Name(), name)
		}
	}
	for _, name := range lacking {
		if err := os.MkdirAll(filepath.Dir(s.keyPath(name)), 0o700); err != nil {
			return nil, err
		}
		if err := durable.Write(s.keyPath(name), sent[name], 0o600); err != nil {
			return nil, err
		}
	}
	s.cfg.Logger.Info("keys of another node are taken", "files", lacking)
	return lacking, nil
}

func (s *Server) keyPath(name string) string {
	return filepath.Join(s.cfg.Keys, filepath.FromSlash(name))
}

// PushKeys sends key files to a node, and returns the names of those that it lacked.
func (c *Client) PushKeys(ctx context.Context, address string, files map[string][]byte) (taken []string, err error) {
	body, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	return taken, c.ask(ctx, http.MethodPost, address+pathKeys, body, &taken)
}
