package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestMailLimit sends mail of the greatest size that the gateway takes, and one
// byte more.
func TestMailLimit(t *testing.T) {
	g := &gateway{path: filepath.Join(t.TempDir(), "mail")}
	shell := len(`{"exec":"a#b","to":"c","text":""}`)
	for size, want := range map[int]int{MaxMail: http.StatusAccepted, MaxMail + 1: http.StatusBadRequest} {
		body := fmt.Sprintf(`{"exec":"a#b","to":"c","text":%q}`, strings.Repeat("x", size-shell))
		answer := httptest.NewRecorder()
		g.send(answer, httptest.NewRequest(http.MethodPost, "/mail", strings.NewReader(body)))
		if answer.Code != want {
			t.Errorf("%d bytes: %d %s, want %d", size, answer.Code, answer.Body, want)
		}
	}
}

// TestStatesGoBack takes states to what they were, in files and in a database.
func TestStatesGoBack(t *testing.T) {
	d := directory(t.TempDir())
	for _, name := range []entry.Principal{pricer, writer} {
		s := d.reversible(name)
		before, err := s.snapshot(offer)
		if err == nil && name == pricer {
			err = d.rows(name).setPrices(offer, map[string]int{"seat": 7})
		} else if err == nil {
			err = d.files(name).set(offer, "letter.txt", "text")
		}
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := s.snapshot(offer); err != nil || string(changed) == string(before) {
			t.Errorf("%s: %s, %v", name, changed, err)
		}
		if err := s.restore(offer, before); err != nil {
			t.Fatal(err)
		}
		if after, err := s.snapshot(offer); err != nil || string(after) != string(before) {
			t.Errorf("%s: %s, want %s; %v", name, after, before, err)
		}
	}
}

// TestShellLine quotes what a shell would take apart.
func TestShellLine(t *testing.T) {
	if got, want := shellLine([]string{"a", "b c", "d'e"}), `a 'b c' 'd'\''e'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
