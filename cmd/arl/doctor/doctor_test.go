package doctor_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/doctor"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/entry"
)

// TestExamine looks at a machine whose ledger does not run: the server cannot be
// reached, and the data directory is sound until its anchor is missing.
func TestExamine(t *testing.T) {
	home, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	machine := &access.Machine{Trust: &trust.Store{Home: func() (string, error) { return home, nil }}}
	n, err := node.Open(t.Context(), node.Options{Dir: data, Create: true, Decides: true, Machine: machine.Trust, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Run(t.Context(), false, func(ctx context.Context) error {
		p := &trust.Profile{URL: "http://127.0.0.1:1"} // nobody listens there
		return n.Introduce(ctx, p, func() (*entry.Policy, error) { return entry.Genesis(""), nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	states := func() map[string]string {
		t.Helper()
		found := map[string]string{}
		verdict, err := doctor.Examine(t.Context(), machine, &access.Where{Data: data}, nil, func(f words.Finding) error {
			if found[f.Check] = f.State; f.State != "ok" && f.Remedy == "" {
				t.Errorf("%s: %s, and no remedy", f.Check, f.Detail)
			}
			return nil
		})
		if err != nil || exit.Code(verdict) != exit.Unavailable && exit.Code(verdict) != exit.NotFound {
			t.Errorf("verdict %v, %v", verdict, err)
		}
		return found
	}
	sound := states()
	for check, want := range map[string]string{"home": "ok", "profile": "ok", "anchor": "ok", "ledger keys": "ok", "server": "fail",
		"coordinator's key": "warn", "key of operator": "ok"} {
		if got := sound[check]; got != want {
			t.Errorf("%s is %q, want %q", check, got, want)
		}
	}
	if err := os.Remove(n.Anchor); err != nil {
		t.Fatal(err)
	}
	if got := states()["anchor"]; got != "fail" {
		t.Errorf("without its anchor: %q", got)
	}
}
