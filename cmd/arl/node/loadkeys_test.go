package node

import (
	"crypto/sha256"
	"errors"
	"os"
	"testing"

	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// TestKeysThatBeginNow loads unused keys of an origin that this machine knows. Either the log of
// that origin is elsewhere, and these keys would begin another. Or another start began it between
// the look at the keys and the look at the profiles: then there is a log, and the keys count as
// used.
func TestKeysThatBeginNow(t *testing.T) {
	for _, began := range []bool{false, true} {
		const origin = "a.example/log"
		n, home := &Node{Dir: t.TempDir()}, t.TempDir()
		err := os.Mkdir(n.KeysDir(), 0o700)
		if err != nil {
			t.Fatal(err)
		}
		made, err := keys.GenerateLedger(n.KeysDir(), origin, nil)
		if err != nil {
			t.Fatal(err)
		}
		machine := &trust.Store{Home: func() (string, error) { return home, nil }}
		root := trust.WithCosigner(verify.Root{Origin: origin, LedgerKeys: made.VerifierKeys[:], Genesis: sha256.Sum256([]byte(origin))})
		if err := machine.Save(&trust.Profile{Name: trust.FileName(origin), Root: root}); err != nil {
			t.Fatal(err)
		}
		looked := false
		machine.Home = func() (string, error) {
			looked = true
			if began {
				return home, keys.MarkLedgerUsed(n.KeysDir())
			}
			return home, nil
		}
		err = n.loadKeys(Options{Dir: n.Dir, Create: true, Machine: machine})
		if began && (err != nil || n.Keys[0].Unused) || !began && !errors.Is(err, ledger.ErrLost) || !looked {
			t.Errorf("begun by another start: %v; looked at the profiles: %v; the error is %v", began, looked, err)
		}
	}
}
