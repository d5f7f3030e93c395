package entry_test

import (
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestComplete adds the members of the header that a payload does not have, and
// leaves what it has.
func TestComplete(t *testing.T) {
	header := entry.Header{V: 1, JTI: "018f0000-0000-7000-8000-000000000001", Iss: "a", Aud: "ledger.example/log", Iat: 7}
	step := `{"wid": "w", "exec": "1", "parents": [], "effect": "none", "progress": "confirmed", "iat": 5}`
	e, err := entry.Complete(entry.KindExecution, []byte(step), header)
	if err != nil {
		t.Fatal(err)
	}
	if h := e.Header; h.Iss != "a" || h.Iat != 5 || h.JTI != header.JTI || h.Wid != "w" {
		t.Errorf("%+v", h)
	}
	if _, err := entry.Complete(entry.KindExecution, []byte("[]"), header); err == nil || !strings.Contains(err.Error(), "not a JSON object") {
		t.Errorf("an array: %v", err)
	}
}

// TestNewWithReason keeps the reason in the payload, which readers decode without it.
func TestNewWithReason(t *testing.T) {
	body := &entry.Execution{Header: entry.Header{V: 1, JTI: "018f0000-0000-7000-8000-000000000001", Iss: "a", Aud: "ledger.example/log", Iat: 7, Wid: "w"},
		Exec: "1", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
	plain, err := entry.NewWithReason(body, "")
	if err != nil || strings.Contains(string(plain.Payload()), "reason") {
		t.Errorf("%s, %v", plain.Payload(), err)
	}
	e, err := entry.NewWithReason(body, "because")
	if err != nil || !strings.Contains(string(e.Payload()), `"reason":"because"`) || e.Body.(*entry.Execution).Exec != "1" {
		t.Errorf("%s, %v", e.Payload(), err)
	}
}
