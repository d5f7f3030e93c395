package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// mail is what the gateway takes. It is gone then: there is no way to call it
// back.
type mail struct {
	Exec entry.Ref `json:"exec"`
	To   string    `json:"to"`
	Text string    `json:"text"`
}

// gateway is the mail gateway.
type gateway struct {
	mu   sync.Mutex
	path string // of the mail that was sent, one a line
}

// Sink is the mail gateway in a process of its own: POST /mail sends, GET /mail
// lists what was sent. It prints its URL, and ends with ctx or its input.
func Sink(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	g := &gateway{path: directory(dir).mails()}
	if err := os.MkdirAll(filepath.Dir(g.path), 0o700); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mail", g.send)
	mux.HandleFunc("GET /mail", g.list)
	server := &http.Server{Handler: mux, ReadTimeout: mailTimeout, WriteTimeout: mailTimeout, MaxHeaderBytes: 1 << 14}
	ctx, cancel := Until(ctx, in)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	(&lines{to: out}).say(message{Kind: "listens", Text: "http://" + listener.Addr().String()})
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

func (d directory) mails() string { return d.path("sink", "mail.ndjson") }

func (g *gateway) send(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxMail))
	m := mail{}
	if err == nil {
		err = json.Unmarshal(body, &m, json.RejectUnknownMembers(true))
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("not a mail {exec, to, text} of %d bytes at most: %v", MaxMail, err), http.StatusBadRequest)
		return
	}
	if err := g.keep(m); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// keep sends a mail: it is on disk, and what is there stays.
func (g *gateway) keep(m mail) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f, err := os.OpenFile(g.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

func (g *gateway) list(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, err := os.ReadFile(g.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_, _ = w.Write(text) // whoever asked has gone
}

// post sends a mail.
func (p *player) post(m mail) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	response, err := p.mail(http.MethodPost, bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("demo: send mail: %s", response.Status)
	}
	return nil
}

// sent returns the mail that was sent.
func (p *player) sent() ([]mail, error) {
	response, err := p.mail(http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, MaxMails))
	if err != nil {
		return nil, err
	}
	return readMails(text)
}

func readMails(text []byte) (list []mail, err error) {
	for line := range bytes.Lines(text) {
		var m mail
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("demo: mail %d: %w", len(list), err)
		}
		list = append(list, m)
	}
	return list, nil
}

// mail asks the gateway; that takes no longer than its time limit.
func (p *player) mail(method string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(context.Background(), method, p.stage.Sink+"/mail", body)
	if err != nil {
		return nil, err
	}
	return (&http.Client{Timeout: mailTimeout}).Do(request)
}

const mailTimeout = 10 * time.Second
