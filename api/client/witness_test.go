package client_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// watcher is a witness that cosigns whatever it sees (c2sp.org/tlog-cosignature).
type watcher struct {
	private ed25519.PrivateKey
	raw     []byte // of its verifier key
}

func newWatcher() *watcher {
	seed := sha256.Sum256([]byte("witness"))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	return &watcher{private, append([]byte{0x04}, public...)}
}

func (w *watcher) hash() []byte {
	sum := sha256.Sum256(append([]byte("w.example\n"), w.raw...))
	return sum[:4]
}

// policy is a witness policy that wants this one.
func (w *watcher) policy() string {
	return fmt.Sprintf("witness w w.example+%x+%s\nquorum w\n", w.hash(), base64.StdEncoding.EncodeToString(w.raw))
}

func (w *watcher) cosign(signed []byte) []byte {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	const at = 1_790_000_000
	sig := ed25519.Sign(w.private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", at, text))
	raw := binary.BigEndian.AppendUint64(w.hash(), at)
	return append(signed, "\u2014 w.example "+base64.StdEncoding.EncodeToString(append(raw, sig...))+"\n"...)
}

// reads are all that a client reads which stands under a tree head.
func reads(t *testing.T, c *client.Client) map[string]error {
	t.Helper()
	errs := map[string]error{}
	_, errs["head"] = c.Head(t.Context())
	_, errs["receipt"] = c.Receipt(t.Context(), 1)
	_, errs["entry"] = c.Entry(t.Context(), 1)
	_, errs["chain"] = c.Chain(t.Context())
	_, errs["history"] = c.History(t.Context(), "agent-1")
	for _, err := range c.Entries(t.Context(), api.ListQuery{}) {
		errs["entries"] = err
	}
	for _, err := range c.Entries(t.Context(), api.ListQuery{Kinds: []entry.Kind{entry.KindSignal}}) {
		errs["an empty list"] = err
	}
	for _, err := range c.Events(t.Context(), 0) {
		errs["events"] = err
		break
	}
	return errs
}

// TestPinnedWitnessesGuardWhatIsRead reads everything from a ledger whose heads
// nobody cosigns, and from one whose published head is cosigned.
func TestPinnedWitnessesGuardWhatIsRead(t *testing.T) {
	n, w := start(t), newWatcher()
	n.add(sign(t, n.agent, execution("agent-1")))
	root := n.root()
	root.Witnesses = w.policy()
	open := func() *client.Client {
		c, err := client.New(n.url, root, &client.Config{Attempts: 1})
		must(t, err)
		return c
	}
	for what, err := range reads(t, open()) {
		if lacking, ok := errors.AsType[*verify.WitnessError](err); !ok || lacking.Quorum != "w" {
			t.Errorf("%s under a head that nobody cosigned: error %v", what, err)
		}
	}
	c := open()
	if _, err := c.Submit(t.Context(), sign(t, n.agent, execution("agent-1"))); err != nil {
		t.Errorf("a receipt is newer than any cosignature: %v", err)
	}
	n.tamper("/checkpoint", w.cosign)
	for what, err := range reads(t, c) {
		if err != nil {
			t.Errorf("%s under a cosigned head: %v", what, err)
		}
	}
	if got := c.Cosigned(); got.Size != n.log.Head().Size || !strings.Contains(got.Note, "w.example") {
		t.Errorf("cosigned is size %d", got.Size)
	}
}
