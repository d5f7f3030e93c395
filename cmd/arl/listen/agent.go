// Package listen has the parts that arl agent listen adds to an agent: the second source of a first
// contact, the secret, the lock that the agent's program inherits, and the monitors that are told
// of a fork.
package listen

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// basisOf describes the basis of the first contact, and the sources that would add to it.
func basisOf(confirm string, root verify.Root) string {
	head, err := root.Head([]byte(root.Seen))
	switch {
	case confirm != "" && !strings.Contains(confirm, "://"):
		return "the file of --confirm is a second source only if the file comes from another party than this ledger; " +
			"a file fetched from the ledger's URL confirms nothing, and arl cannot tell the difference. " + unconfirmed(root)
	case confirm != "":
		return "the agent undoes nothing until the second source (--confirm) has confirmed the tree head"
	case root.Seen != "" && err == nil:
		return fmt.Sprintf("the pinned root carries the tree head of size %d, which the ledger must continue. "+
			"A second source (--confirm) would also show that others see the same log since then", head.Size)
	}
	return "the agent undoes nothing until another source than this ledger confirms the tree head: a pinned root with a tree head " +
		"(arl agent enrol writes it, arl root show prints it: --root FILE), a second source (--confirm), or a quorum of witnesses. " +
		"The ledger's own URL is no second source, nor is a file fetched from it"
}

// unconfirmed says what a second source is for, and what to do without one.
func unconfirmed(root verify.Root) string {
	const purpose = "A second source shows that others see the same log. Without one, "
	if head, err := root.Head([]byte(root.Seen)); root.Seen != "" && err == nil {
		return purpose + fmt.Sprintf("leave --confirm out: the pinned root carries the tree head of size %d", head.Size)
	}
	return purpose + "pass --root FILE in place of --confirm, with a pinned root that carries a tree head: " +
		"arl root show --out FILE writes it where arl agent enrol has run"
}

// secondSource returns the source that confirms the first contact beside the ledger: the source of
// --confirm, otherwise the pinned root; nil if neither can.
func secondSource(machine *access.Machine, c *access.Connection, t *access.Target, confirm string) (agent.Source, error) {
	if confirm == "" {
		seen := c.Root.Seen
		if seen == "" {
			return nil, nil
		}
		return &agent.Mirror{Client: c.Client, Head: func(context.Context) (string, error) { return seen, nil }}, nil
	}
	head, err := secondHead(machine, c, t, confirm)
	if err != nil {
		return nil, fmt.Errorf("--confirm: %w", err)
	}
	return &agent.Mirror{Client: c.Client, Head: head}, nil
}

// noteFork stops the agent for good if the connection has seen two logs before the agent started.
// An empty state means that the agent is not known: only the ledger can name the agent of a key,
// and the ledger is not believed any more. noteFork then stops all agents on this machine that
// follow the ledger.
func noteFork(machine *access.Machine, state string, root verify.Root, fork *verify.ForkError) error {
	states := []string{state}
	if state == "" {
		all, err := machine.Trust.Path("agents", "*")
		if err == nil {
			states, err = filepath.Glob(all)
		}
		if err != nil {
			return err
		}
	}
	var failed error
	for _, path := range states {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // an agent that never ran here has nothing to stop
		}
		store, err := agent.OpenDir(path)
		if errors.Is(err, agent.ErrLocked) {
			continue // the process with the lock sees the fork itself
		}
		if err == nil {
			err = errors.Join(agent.NoteFork(store, root, fork), store.Close())
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// HoldProgram locks a file that the program inherits. The file stays locked as long as any process
// of the program runs, even if this process is killed. The next agent must not ask Probe before all
// these processes have ended. On Windows the program does not inherit the file, and the lock covers
// this process alone.
func HoldProgram(state string) (*os.File, error) {
	path := filepath.Join(state, ".program")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, exit.Output(path, err)
	}
	held, err := durable.Lock(f)
	if held {
		return f, nil
	}
	if err == nil {
		err = exit.With(exit.Conflict, fmt.Errorf("%s: a program of an earlier arl agent listen still runs: wait until the program ends, or end it (fuser names its process)", path))
	}
	return nil, errors.Join(err, f.Close())
}

// secretSize is the length of a new secret, in bytes.
const secretSize = 32

// makeSecret makes a secret and writes it to a file.
func makeSecret(path string) error {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // never fails
	return exit.Output(path, durable.Write(path, []byte(hex.EncodeToString(secret)+"\n"), 0o600))
}

// secretFile returns the file with the secret of an agent: the named file, or the file beside the
// key. Nothing is beside a key in a KMS.
func secretFile(named, key string) (string, error) {
	if named == "" && keys.IsURI(key) {
		return "", exit.Usagef("the key %s is in a KMS, and no file is beside it: pass --secret FILE", key)
	}
	return cmp.Or(named, key+".secret"), nil
}

// OpenSecret reads the secret of an agent from the named file, or from the file beside the key. It
// makes a missing secret.
func OpenSecret(named, key string) ([]byte, error) {
	path, err := secretFile(named, key)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeSecret(path); err != nil {
			return nil, err
		}
	}
	return ReadSecret(path)
}

// ReadSecret reads a secret from a file.
func ReadSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.With(exit.Config, fmt.Errorf("%s: the secret is missing: if the agent has a new key, pass --secret with the file beside its first key; "+
			"else restore the file from a backup; for a new agent, arl agent listen --init makes it", path))
	}
	if err != nil {
		return nil, exit.With(exit.IO, err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) < secretSize {
		return nil, exit.With(exit.Config, fmt.Errorf("%s: want %d bytes or more in hexadecimal", path, secretSize))
	}
	return secret, nil
}

// secondHead returns the function that returns the head of the second source. secondHead reads a
// file at once, because an error in a file stays. The function asks another server only when the
// head is needed, because the server may be unavailable at the start.
func secondHead(machine *access.Machine, c *access.Connection, t *access.Target, source string) (func(ctx context.Context) (string, error), error) {
	if !strings.Contains(source, "://") {
		note, err := machine.Read(source, verify.MaxNote)
		if err == nil {
			_, err = c.Client.Root().Head(note)
		}
		if err != nil {
			return nil, fmt.Errorf("%w; want a file with a signed tree head of %s, as GET /checkpoint gives it", err, c.Root.Origin)
		}
		return func(context.Context) (string, error) { return string(note), nil }, nil
	}
	base := strings.TrimSuffix(strings.TrimRight(source, "/"), "/checkpoint")
	if _, _, err := t.Client(base, c.Client.Root(), new(client.Config)); err != nil {
		return nil, exit.Usagef("%s", err)
	}
	if sameServer(base, c.URL) {
		return nil, exit.Usagef("%s is the ledger itself; the ledger, or a file fetched from it, is no second source: pass a mirror. %s", source, unconfirmed(c.Root))
	}
	return func(ctx context.Context) (string, error) {
		other, _, err := t.Client(base, c.Client.Root(), new(client.Config))
		if err != nil {
			return "", err
		}
		head, err := other.Head(ctx)
		return head.Note, err
	}, nil
}

// sameServer reports whether two URLs are spellings of one URL. These differences do not count:
// case, a dot after the host, the port of the scheme, zeros before a port, slashes and dots in the
// path, and the names of this machine.
func sameServer(one, other string) bool {
	spell := func(text string) (host, port, under string) {
		u, err := url.Parse(text)
		if err != nil {
			return text, "", ""
		}
		host = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
			host = "localhost"
		}
		scheme := map[string]string{"http": "80", "https": "443"}
		return host, cmp.Or(strings.TrimLeft(u.Port(), "0"), scheme[u.Scheme]), path.Clean("/" + u.Path)
	}
	oneHost, onePort, onePath := spell(one)
	otherHost, otherPort, otherPath := spell(other)
	return oneHost == otherHost && onePort == otherPort && onePath == otherPath
}
