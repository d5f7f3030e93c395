package consoles

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"recoveryledger/api/console"
	"recoveryledger/ledger/durable"
)

// capabilitySize is the number of random bytes in the path of a console. Such a path cannot be
// guessed.
const capabilitySize = 16

// Capability returns the secret that begins every path of a console. Every user and program of the
// machine can call loopback, so the secret path decides who may read the console. The secret is
// made once, and kept in a file that only its owner can read.
func Capability(file string) (string, error) {
	content, err := os.ReadFile(file)
	text := strings.TrimSpace(string(content))
	if raw, wrong := hex.DecodeString(text); err == nil && wrong == nil && len(raw) == capabilitySize {
		return text, nil
	}
	if err == nil {
		return "", fmt.Errorf("%s: want %d hexadecimal digits: remove the file, and a new one is made", file, 2*capabilitySize)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	raw := make([]byte, capabilitySize)
	_, _ = rand.Read(raw) // crypto/rand never fails
	text = hex.EncodeToString(raw)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	return text, durable.Create(file, []byte(text+"\n"), 0o600)
}

// Handler serves pages below a capability. A request must call the listener by its own address: a
// website whose name resolves to loopback calls it by another name (DNS rebinding). Handler also
// refuses requests that another site makes a browser send.
func Handler(pages *console.Console, capability string, listener net.Addr) http.Handler {
	below := http.StripPrefix("/"+capability, pages)
	guarded := http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/"+capability && !strings.HasPrefix(q.URL.Path, "/"+capability+"/") {
			http.NotFound(w, q)
			return
		}
		below.ServeHTTP(w, q)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Host != listener.String() {
			http.Error(w, "this console is not called by that name", http.StatusMisdirectedRequest)
			return
		}
		guarded.ServeHTTP(w, q)
	})
}

// The limits of a request of a person's browser.
const (
	headerTime  = 10 * time.Second
	bodyTime    = 30 * time.Second
	endTime     = 5 * time.Second
	headerBytes = 1 << 16
)

// Serve serves until ctx ends, and does work beside. A contradiction of the log does not end Serve,
// because the page that shows the contradiction must stay. The error is then the contradiction.
func Serve(ctx context.Context, s *Source, listener net.Listener, handler http.Handler, work func(context.Context) error) error {
	group, serving := errgroup.WithContext(ctx)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, MaxHeaderBytes: headerBytes,
		BaseContext: func(net.Listener) context.Context { return serving }}
	group.Go(func() error { return work(serving) })
	var found error
	group.Go(func() error {
		found = s.run(serving)
		return nil
	})
	group.Go(func() error {
		<-serving.Done()
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer stop()
		return server.Shutdown(end)
	})
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return errors.Join(group.Wait(), found)
}
