package console_test

import (
	"context"
	"strings"
	"testing"

	"recoveryledger/api/console"
	"recoveryledger/api/words"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestHealth shows what arl doctor finds, in its words, whatever stands in them.
func TestHealth(t *testing.T) {
	l := foldlog.New(t)
	for derived, heading := range map[bool]string{true: ">This machine<", false: ">The ledger<"} {
		c, err := console.New(&console.Config{Source: shown{l}, Origin: "ledger.example/test", Derived: derived, Examine: func(_ context.Context, tell func(words.Finding)) {
			tell(words.Finding{Check: "clock", State: words.FindingOK, Detail: "differs by little"})
			tell(words.Finding{Check: "key of <b>\u202e", State: words.FindingWarn, Detail: "other users can read it\x00", Remedy: "chmod 600"})
			tell(words.Finding{Check: "server", State: words.FindingFail, Detail: strings.Repeat("x", 1<<16), Remedy: "start the ledger"})
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, body := get(t, c, "/health")
		webpage.Check(t, "/health", body)
		for _, want := range []string{heading, "✓ ok", "! warn", "✕ fail", "differs by little", "key of &lt;b&gt;[U&#43;202E]", "other users can read it[U&#43;0000]", "chmod 600"} {
			if !strings.Contains(body, want) {
				t.Errorf("the page does not say %q: %s", want, body)
			}
		}
	}
	if _, body := get(t, pages(t, l, ""), "/health"); strings.Contains(body, "This machine") {
		t.Error("checks that nobody made")
	}
}
