package console

import (
	"io/fs"
	"net/http"
	"strings"

	"recoveryledger/ledger/entry"
)

// Room is further pages with a link in the bar. The pages have the form, the headers and the errors
// of all pages.
type Room interface {
	// Section is the link in the bar.
	Section() Section
	// Files has a template pages/NAME.html for each name of a page, which defines "main", and in
	// parts/*.html what these templates share.
	Files() fs.FS
	// Views returns the pages, and what their forms do.
	Views() []View
}

// View answers a method of a path. The error is a *[entry.Refusal], or says that the page cannot be
// made now.
type View struct {
	Pattern string // method and path, as [http.ServeMux] has them
	Answer  func(w http.ResponseWriter, q *http.Request) (*Page, error)
}

// Page is a page of a room.
type Page struct {
	Name    string // of the template
	Title   string
	Command string // says the same in a terminal
	Body    any
	Status  int // of HTTP; 0: 200
	// Again says that the page shows something that goes on: the browser asks for the page again.
	Again bool
	// To is the path that answers in place of this page, below the base; empty: none does.
	To string
}

// enter adds the pages of a room.
func (k *Console) enter(room Room) error {
	names, err := fs.Glob(room.Files(), "pages/*.html")
	if err != nil {
		return err
	}
	parts, err := fs.Glob(room.Files(), "parts/*.html")
	if err != nil {
		return err
	}
	for _, path := range names {
		name := strings.TrimSuffix(strings.TrimPrefix(path, "pages/"), ".html")
		k.parse(name, room.Files(), parts...)
	}
	for _, v := range room.Views() {
		k.mux.HandleFunc(v.Pattern, func(w http.ResponseWriter, q *http.Request) { k.view(w, q, v) })
	}
	return nil
}

// view answers a request for a page of the room.
func (k *Console) view(w http.ResponseWriter, q *http.Request, v View) {
	if p := k.alone(w); p != nil {
		k.write(w, http.StatusServiceUnavailable, p)
		return
	}
	made, err := v.Answer(w, q)
	switch {
	case err != nil:
		k.answer(w, q, func(*Console, *http.Request) (*page, error) { return nil, err })
	case made.To != "":
		http.Redirect(w, q, k.link(made.To), http.StatusSeeOther)
	default:
		status := http.StatusOK
		if made.Status != 0 {
			status = made.Status
		}
		k.write(w, status, &page{name: made.Name, Title: made.Title, Command: made.Command, Section: k.cfg.Room.Section().Name, Body: made.Body, Again: made.Again})
	}
}

// statusOf returns the status of a page that says why there is no other.
func statusOf(p entry.Problem) int {
	switch p {
	case entry.NotFound:
		return http.StatusNotFound
	case entry.Malformed:
		return http.StatusBadRequest
	case entry.TooLarge:
		return http.StatusRequestEntityTooLarge
	case entry.StateConflict:
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}
