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
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// mail is a message to the gateway. A sent mail cannot be called back.
type mail struct {
	Exec entry.Ref `json:"exec"`
	To   string    `json:"to"`
	Text string    `json:"text"`
}

// gateway is a mail gateway over HTTP. It appends each sent mail to a file, one a line.
type gateway struct{ path string }

// mailTimeout is the time limit of a request to the gateway.
const mailTimeout = 10 * time.Second

// open starts the gateway on loopback. It returns the URL, and the function that ends the gateway.
func (g gateway) open(ctx context.Context) (url string, end func() error, err error) {
	if err := write(g.path, nil); err != nil {
		return "", nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(g.send), ReadTimeout: mailTimeout, WriteTimeout: mailTimeout, MaxHeaderBytes: 1 << 14}
	go func() { _ = server.Serve(listener) }() // until Close; senders see their own errors
	return "http://" + listener.Addr().String(), server.Close, nil
}

func (g gateway) send(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMail))
	m := mail{}
	if err == nil {
		err = json.Unmarshal(body, &m, json.RejectUnknownMembers(true))
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("not a mail {exec, to, text} of %d bytes at most: %v", maxMail, err), http.StatusBadRequest)
		return
	}
	if err := g.keep(m); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// keep sends a mail: it appends the mail to the file in one piece and syncs the file.
func (g gateway) keep(m mail) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(g.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// post sends a mail.
func (p *player) post(m mail) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.stage.Gateway, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := (&http.Client{Timeout: mailTimeout}).Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("demo: send mail: %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// sent returns the mail that was sent.
func (d directory) sent() (list []mail, err error) {
	text, err := os.ReadFile(d.gateway().path)
	for line := range bytes.Lines(text) {
		var m mail
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("demo: mail %d: %w", len(list), err)
		}
		list = append(list, m)
	}
	return list, err
}

func (d directory) gateway() gateway { return gateway{d.path("sent", "mail.ndjson")} }
