package trust_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

func store(t *testing.T) *trust.Store {
	t.Helper()
	dir := t.TempDir()
	return &trust.Store{Home: func() (string, error) { return dir, nil }}
}

// rootOf returns a root that a machine may pin, and the signer of its heads.
func rootOf(t *testing.T, origin string) (verify.Root, *keys.Ledger) {
	t.Helper()
	key, err := keys.GenerateLedger(t.TempDir(), origin, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := verify.Root{Origin: origin, LedgerKeys: key.VerifierKeys[:], Genesis: merkle.Hash(sha256.Sum256([]byte(origin)))}
	return trust.WithCosigner(root), key
}

func TestProfiles(t *testing.T) {
	s := store(t)
	if _, err := s.Select(""); exit.Code(err) != exit.Config {
		t.Errorf("without a profile: %v", err)
	}
	for _, name := range []string{"one", "two"} {
		root, _ := rootOf(t, name+".example/log")
		if err := s.Save(&trust.Profile{Name: name, URL: "http://" + name + ".example", Root: root, Keys: []trust.NamedKey{}}); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Select(""); name == "one" && (err != nil || p.Name != "one") {
			t.Errorf("the only profile: %v", err)
		}
	}
	if _, err := s.Select(""); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "one|two") {
		t.Errorf("two profiles: %v", err)
	}
	if err := s.Choose("two"); err != nil {
		t.Fatal(err)
	}
	two, err := s.Select("")
	if err != nil || two.Name != "two" || two.Root.Origin != "two.example/log" {
		t.Errorf("the chosen profile: %+v, %v", two, err)
	}
	if _, err := s.Named("tow"); exit.Code(err) != exit.NotFound || !strings.Contains(err.Error(), "did you mean two?") {
		t.Errorf("a mistyped name: %v", err)
	}
	if _, err := s.Select("tow"); exit.Code(err) != exit.Config {
		t.Errorf("a mistyped name for a command: %v", err)
	}
	other, _ := rootOf(t, "two.example/log")
	other.Genesis = merkle.Hash{1}
	if err := s.Save(&trust.Profile{Name: "two", Root: other}); exit.Code(err) != exit.Config {
		t.Errorf("another ledger under the same name: %v", err)
	}
	if err := s.Remove(two); err != nil {
		t.Fatal(err)
	}
	if names, err := s.Profiles(); err != nil || !slices.Equal(names, []string{"one"}) {
		t.Errorf("after a profile was removed: %v, %v", names, err)
	}
	if p, err := s.Select(""); err != nil || p.Name != "one" {
		t.Errorf("the profile that is left: %v", err)
	}
}

// TestRetiredProfile shows that a retired profile is found by its new name alone,
// that its origin stays taken, and that its successor is chosen in its place.
func TestRetiredProfile(t *testing.T) {
	s := store(t)
	root, _ := rootOf(t, "a.example/log")
	name := trust.FileName(root.Origin)
	err := s.Save(&trust.Profile{Name: name, Root: root})
	if err = errors.Join(err, s.Choose(name)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a command that was interrupted is run again
		if former, err := s.Retire(root.Origin, "b.example/log"); err != nil || former != "former/"+name {
			t.Fatalf("%q, %v", former, err)
		}
	}
	if _, err := s.Of(root.Origin); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the retired profile is still found by its origin: %v", err)
	}
	if _, err := s.Named("former/" + name); err != nil {
		t.Errorf("the retired profile is not found by its name: %v", err)
	}
	if err := s.RefuseKnown(root.Origin); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("a second log under the origin: %v", err)
	}
	if err := s.RefuseKnown("b.example/log"); err != nil {
		t.Errorf("a new origin: %v", err)
	}
	if chosen, err := s.Chosen([]string{"x", trust.FileName("b.example/log")}); err != nil || chosen != "b.example_log" {
		t.Errorf("chosen is %q, %v", chosen, err)
	}
	if former, err := s.Retire("c.example/log", "b.example/log"); former != "" || err != nil {
		t.Errorf("an unknown origin: %q, %v", former, err)
	}
}

// TestAcceptedHead shows which head a later one has to continue: the larger of the
// accepted one and the one that the root carries. Two of one size that differ are
// a fork.
func TestAcceptedHead(t *testing.T) {
	s := store(t)
	root, key := rootOf(t, "a.example/log")
	sign := func(size uint64, content byte) string {
		t.Helper()
		root := merkle.Hash{content}
		text := fmt.Sprintf("a.example/log\n%d\n%s\n", size, base64.StdEncoding.EncodeToString(root[:]))
		signed, err := note.Sign(&note.Note{Text: text}, key.Signer)
		if err != nil {
			t.Fatal(err)
		}
		return string(signed)
	}
	if head, err := s.Head(root); head != nil || err != nil {
		t.Errorf("nothing was accepted: %v, %v", head, err)
	}
	if err := s.SaveHead(root.Origin, sign(5, 1)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seen string
		size uint64
	}{{"", 5}, {sign(4, 1), 5}, {sign(5, 1), 5}, {sign(6, 1), 6}} {
		root.Seen = c.seen
		if head, err := s.Head(root); err != nil || head.Size != c.size {
			t.Errorf("want the head of size %d, got %v, %v", c.size, head, err)
		}
	}
	root.Seen = sign(5, 2)
	if _, err := s.Head(root); exit.Code(err) != exit.Inconsistent {
		t.Errorf("two heads of size 5: %v", err)
	}
}

// TestDamagedFiles shows that each damaged file is named.
func TestDamagedFiles(t *testing.T) {
	s := store(t)
	root, _ := rootOf(t, "a.example/log")
	for _, c := range []struct {
		path []string
		read func() error
		code int
	}{
		{[]string{"profiles", "p.json"}, func() error { _, err := s.Profile("p"); return err }, exit.Config},
		{[]string{"heads", "a.example_log.root.json"}, func() error { _, err := s.Followed(root); return err }, exit.Config},
		{[]string{"heads", "a.example_log.note"}, func() error { _, err := s.Head(root); return err }, exit.Verification},
	} {
		path, err := s.Path(c.path...)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := c.read(); exit.Code(err) != c.code || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: exit code %d, %v", path, exit.Code(err), err)
		}
	}
}
