package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMailLimit sends mail of the greatest size that the gateway takes, and one
// byte more.
func TestMailLimit(t *testing.T) {
	g := gateway{path: filepath.Join(t.TempDir(), "mail")}
	shell := len(`{"exec":"a#b","to":"c","text":""}`)
	for size, want := range map[int]int{maxMail: http.StatusAccepted, maxMail + 1: http.StatusBadRequest} {
		body := fmt.Sprintf(`{"exec":"a#b","to":"c","text":%q}`, strings.Repeat("x", size-shell))
		answer := httptest.NewRecorder()
		g.send(answer, httptest.NewRequest(http.MethodPost, "/mail", strings.NewReader(body)))
		if answer.Code != want {
			t.Errorf("%d bytes: %d %s, want %d", size, answer.Code, answer.Body, want)
		}
	}
}

// TestStatesGoBack takes a state to what it was: a file is new, and another is changed.
func TestStatesGoBack(t *testing.T) {
	s := directory(t.TempDir()).files(writer, offer)
	set := func(name, text string) {
		t.Helper()
		if err := s.set(name, text); err != nil {
			t.Fatal(err)
		}
	}
	set("letter.txt", "text")
	before, err := s.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	set("letter.txt", "another")
	set("more.txt", "text")
	if changed, err := s.snapshot(); err != nil || string(changed) == string(before) {
		t.Errorf("%s, %v", changed, err)
	}
	if err := s.restore(before); err != nil {
		t.Fatal(err)
	}
	if after, err := s.snapshot(); err != nil || string(after) != string(before) {
		t.Errorf("%s, want %s; %v", after, before, err)
	}
}

// TestCancelTwice cancels a booking twice under one key: the second time is refused.
func TestCancelTwice(t *testing.T) {
	b := directory(t.TempDir()).bookings()
	if err := b.cancel("key", "booker#order", "booker#undo"); err != nil {
		t.Fatal(err)
	}
	if err := b.cancel("key", "booker#order", "booker#undo"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if keys, err := b.cancelled("booker#order"); err != nil || !slices.Equal(keys, []string{"key"}) {
		t.Errorf("%v, %v", keys, err)
	}
}

// TestShellLine quotes what a shell would take apart.
func TestShellLine(t *testing.T) {
	if got, want := shellLine([]string{"a", "b c", "d'e"}), `a 'b c' 'd'\''e'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
