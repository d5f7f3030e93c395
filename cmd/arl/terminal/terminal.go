package terminal

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/keys"
)

// Passphrase implements [keys.Passphrase] for key files that exist.
func (c *Terminal) Passphrase() ([]byte, error) {
	if secret, err := given(); secret != nil || err != nil {
		return secret, err
	}
	return c.askSecret("Passphrase: ")
}

// newPassphrase is Passphrase for a new file: a person types the passphrase twice.
func (c *Terminal) newPassphrase() ([]byte, error) {
	if secret, err := given(); secret != nil || err != nil {
		return secret, err
	}
	first, err := c.askSecret("New passphrase: ")
	if err != nil {
		return nil, err
	}
	second, err := c.askSecret("Once more: ")
	if err == nil && !bytes.Equal(first, second) {
		err = exit.Usagef("the two passphrases differ")
	}
	return first, err
}

// PassphraseGiven reports whether the environment or a credential of the service has a passphrase.
func PassphraseGiven() bool {
	secret, err := given()
	return secret != nil || err != nil
}

// credential is the name of the file with the passphrase among the credentials of a service.
const credential = "arl.passphrase"

// given returns the passphrase of the environment, or of the credential that systemd has given to
// this service; nil if there is neither. A line end behind the credential is not part of it.
func given() ([]byte, error) {
	if secret := os.Getenv(exit.PassphraseVariable); secret != "" {
		return []byte(secret), nil
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return nil, nil
	}
	secret, err := os.ReadFile(filepath.Join(dir, credential))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, exit.With(exit.Config, fmt.Errorf("the credential %s: %w", credential, err))
	}
	if secret = bytes.TrimRight(secret, "\r\n"); len(secret) == 0 {
		return nil, exit.With(exit.Config, fmt.Errorf("the credential %s is empty: write the passphrase into it", credential))
	}
	return secret, nil
}

// ForNewKeys returns the passphrase of new key files; nil if the files are not encrypted.
func (c *Terminal) ForNewKeys(encrypt bool) keys.Passphrase {
	if !encrypt {
		return nil
	}
	return c.newPassphrase
}

// Once returns a passphrase that is asked for once, for several files. Nil stays nil.
func Once(p keys.Passphrase) keys.Passphrase {
	if p == nil {
		return nil
	}
	return sync.OnceValues(p)
}

func (c *Terminal) askSecret(prompt string) ([]byte, error) {
	f, ok := c.In.(*os.File)
	if !ok || !isTerminal(f) {
		return nil, exit.Usagef("no terminal to ask for the passphrase: set %s", exit.PassphraseVariable)
	}
	fmt.Fprint(c.Err, prompt)
	secret, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(c.Err)
	return secret, err
}

// Confirm asks a person to confirm an action that cannot be undone. The preview was shown before.
// yes answers in place of a person.
func (c *Terminal) Confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !c.Interactive() {
		return exit.Usagef("no terminal to ask %q: pass --yes", question)
	}
	fmt.Fprintf(c.Err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return exit.With(exit.Interrupted, errors.New("not confirmed: nothing was changed"))
	}
	return nil
}

// Interactive reports whether a person can be asked.
func (c *Terminal) Interactive() bool { return isTerminal(c.In) }

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// lineEveryDefault is the time between two lines about progress.
const lineEveryDefault = 10 * time.Second

// lines tells the progress of a long command in lines, for a log.
func (c *Terminal) lines(name string, note func() string) (tell func(done, total uint64)) {
	var mu sync.Mutex // steps may be done side by side
	last, every := time.Now(), cmp.Or(c.LineEvery, lineEveryDefault)
	return func(done, total uint64) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) >= every {
			last = time.Now()
			fmt.Fprintf(c.Err, "arl: %s: %d of %d%s\n", name, done, total, note())
		}
	}
}

// Progress shows the progress of a long command: a bar on a terminal, otherwise a line every 10
// seconds. tell updates the display. end ends the display.
func (c *Terminal) Progress(name string) (tell func(done, total uint64), end func()) {
	return c.NotedProgress(name, func() string { return "" })
}

// Bar returns Progress if it shows a bar; nil: nobody sits at a terminal.
func (c *Terminal) Bar() func(name string) (tell func(done, total uint64), end func()) {
	if !isTerminal(c.Err) {
		return nil
	}
	return c.Progress
}

// NotedProgress is Progress with a note behind the counts. tell asks for the note.
func (c *Terminal) NotedProgress(name string, note func() string) (tell func(done, total uint64), end func()) {
	if !isTerminal(c.Err) {
		return c.lines(name, note), func() {}
	}
	var container *mpb.Progress // set by the first tell: before, a person may type a passphrase
	var bar *mpb.Bar
	var noted atomic.Pointer[string]
	begin := sync.OnceFunc(func() {
		container = mpb.New(mpb.WithOutput(c.Err), mpb.WithWidth(60))
		bar = container.AddBar(0,
			mpb.PrependDecorators(decor.Name(name+" ")),
			mpb.AppendDecorators(decor.CountersNoUnit("%d of %d", decor.WCSyncSpace), decor.Any(func(decor.Statistics) string { return *noted.Load() }),
				decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace)))
	})
	tell = func(done, total uint64) {
		now := note()
		noted.Store(&now)
		begin()
		bar.SetTotal(int64(total), false)
		bar.SetCurrent(int64(done))
	}
	end = func() {
		if bar != nil {
			bar.Abort(true)
			container.Wait()
		}
	}
	return tell, end
}
