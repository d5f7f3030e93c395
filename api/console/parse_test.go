package console

import "testing"

// source is one that nobody asks.
type source struct{ Source }

// TestEveryPageParses parses the pages, which a ledger parses when somebody looks.
func TestEveryPageParses(t *testing.T) {
	k, err := New(&Config{Source: source{}, Origin: "ledger.example/test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(k.pages) == 0 {
		t.Fatal("no page")
	}
	for name, page := range k.pages {
		if made, err := page(); err != nil || made.Lookup(name+".html") == nil {
			t.Errorf("page %s: %v", name, err)
		}
	}
}
