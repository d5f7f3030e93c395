package doctor

import (
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/exit"
)

// TestCheckIndex holds the line about the index to what a server may say of it.
func TestCheckIndex(t *testing.T) {
	for name, c := range map[string]struct {
		said     *api.IndexStatus
		required bool
		state    string // of the line; empty: there is none
		detail   string
	}{
		"none":                   {nil, false, "", ""},
		"none, and required":     {nil, true, words.FindingFail, "the ledger keeps no index"},
		"follows":                {&api.IndexStatus{Size: 9, Lag: 1}, true, words.FindingOK, "size 9, 1 entry behind the log"},
		"as far as tails reach":  {&api.IndexStatus{Size: 9, Lag: 512}, true, words.FindingOK, "512 entries behind"},
		"behind":                 {&api.IndexStatus{Size: 9, Lag: 513}, true, words.FindingWarn, "513 entries behind"},
		"stopped":                {&api.IndexStatus{Size: 9, Stopped: "a wrong root"}, false, words.FindingWarn, "a wrong root"},
		"stopped, and required":  {&api.IndexStatus{Size: 9, Stopped: "a wrong root"}, true, words.FindingFail, "a wrong root"},
		"stopped and far behind": {&api.IndexStatus{Lag: 900, Stopped: "a wrong root"}, false, words.FindingWarn, "a wrong root"},
	} {
		var said []words.Finding
		d := &diagnosis{tell: func(f words.Finding) error { said = append(said, f); return nil }}
		d.checkIndex(c.said, c.required)
		if len(said) != min(1, len(c.state)) {
			t.Errorf("%s: it says %+v", name, said)
			continue
		}
		if len(said) == 1 && (said[0].State != c.state || !strings.Contains(said[0].Detail, c.detail) || (said[0].Remedy == "") != (c.state == words.FindingOK)) {
			t.Errorf("%s: it says %+v", name, said)
		}
		if fails := exit.Code(d.verdict()) != exit.OK; fails != (c.state == words.FindingFail) {
			t.Errorf("%s: verdict %v", name, d.verdict())
		}
	}
}
