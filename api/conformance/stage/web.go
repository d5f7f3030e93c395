package stage

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// Seen is a request that the ledger has answered, or has begun to answer.
type Seen struct {
	Method, Path string
	Query        string
	Body         []byte // of a submission
	At           time.Time
	Status       int // 0: not answered yet, or no answer was given
}

// maxBody is how much of a request the stage reads, in bytes.
const maxBody = 4 << 20

// Script has a script answer requests from now on; nil has the server answer all.
func (s *Stage) Script(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Seen returns the requests so far, in the order in which they came.
func (s *Stage) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen(nil), s.seen...)
}

// serve answers a request, and notes it.
func (s *Stage) serve(w http.ResponseWriter, r *http.Request) {
	seen := Seen{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, At: time.Now()}
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return // whoever sent it has gone away
		}
		seen.Body, r.Body = body, io.NopCloser(bytes.NewReader(body))
	}
	s.mu.Lock()
	place := len(s.seen)
	s.seen = append(s.seen, seen)
	script := s.script
	s.mu.Unlock()
	s.announce()
	r.Header.Del("Accept-Encoding") // who changes an answer has to read it
	noted := &noting{ResponseWriter: w}
	defer func() {
		s.mu.Lock()
		s.seen[place].Status = noted.status
		s.mu.Unlock()
		s.announce()
	}()
	if script == nil || !script(noted, r, s.honest) {
		s.honest.ServeHTTP(noted, r)
	}
}

// noting notes the status of an answer.
type noting struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements [http.ResponseWriter].
func (n *noting) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (n *noting) Write(data []byte) (int, error) {
	if n.status == 0 {
		n.status = http.StatusOK
	}
	return n.ResponseWriter.Write(data)
}

// Unwrap gives [http.ResponseController] the writer below.
func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// Answer is an answer that was not sent yet. It is a [http.ResponseWriter].
type Answer struct {
	Status int
	Body   []byte

	header http.Header
}

// Honest returns the answer that the server would give to a request.
func Honest(honest http.Handler, r *http.Request) *Answer {
	a := &Answer{Status: http.StatusOK, header: http.Header{}}
	honest.ServeHTTP(a, r)
	return a
}

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) { a.Status = status }

// Write implements [http.ResponseWriter].
func (a *Answer) Write(data []byte) (int, error) {
	a.Body = append(a.Body, data...)
	return len(data), nil
}

// Send sends the answer with its Status and Body as they are now.
func (a *Answer) Send(w http.ResponseWriter) {
	for name, values := range a.header {
		if name != "Content-Length" && name != "Etag" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a client that is gone needs none
}

// Ask answers a request of the kit itself, as the server does.
func (s *Stage) Ask(r *http.Request) *Answer { return Honest(s.honest, r) }
