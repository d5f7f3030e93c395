package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"recoveryledger/api/act"
	"recoveryledger/ledger/entry"
)

// Key is a private key that is at hand where the pages are made.
type Key struct {
	ID string // as in entries
	// Name is what a person calls the key, such as the name of its file.
	Name string
	// Encrypted says that the page asks for a passphrase. Without one the act is confirmed
	// in the terminal that runs the console.
	Encrypted bool
}

// Signing signs and registers what a page shows. Its methods may be called at any time
// from anywhere.
type Signing interface {
	// Keys returns the keys, in the order in which a page offers them.
	Keys() []Key
	// Unlock makes a key ready for one act, which question describes. The error is an
	// [ErrDeclined] if the person does not want the act or gives a wrong passphrase.
	Unlock(ctx context.Context, keyID string, by entry.Principal, passphrase, question string) (act.Signer, error)
	// Seal seals what draft returns for the log as it stands, as [act.SealAside] does. The log does
	// not change while draft runs. Seal returns an error of draft unchanged.
	Seal(by act.Signer, draft func(*act.Log) (*act.Draft, error)) ([]*entry.Entry, error)
	// Register sends entries to the ledger. It returns the index of the last one, once
	// its receipt is verified.
	Register(ctx context.Context, entries []*entry.Entry) (index uint64, err error)
}

// ErrDeclined reports that a key was not made ready.
var ErrDeclined = errors.New("nothing was signed")

// signer is a key, and whom it speaks for in the log.
type signer struct {
	Key
	Principal entry.Principal // empty: the key is enrolled for no principal
}

// signers returns the keys at hand with their principals.
func (k *Console) signers(l *act.Log) (list []signer) {
	for _, key := range k.cfg.Signing.Keys() {
		owner, _ := l.State.Chain().Owner(key.ID)
		list = append(list, signer{key, owner})
	}
	return list
}

// payloadsMax is the number of payloads that the page of an act shows. Only the record of an
// incident whose agents say nothing has more.
const payloadsMax = 16

// fixedFor is how long the payloads of a page can be signed.
const fixedFor = 10 * time.Minute

// readFixed reads the field that keeps what stays of the payloads; nil: they must be drafted anew.
func readFixed(text string, l *act.Log) *act.Fixed {
	fields := strings.Fields(text)
	if len(fields) < 2 || len(fields) > 2+payloadsMax {
		return nil
	}
	at, wrongAt := strconv.ParseInt(fields[0], 10, 64)
	pin, wrongPin := strconv.ParseUint(fields[1], 10, 63)
	if wrongAt != nil || wrongPin != nil || at > l.Now || l.Now-at > fixedFor.Milliseconds() || pin > l.State.Size() {
		return nil
	}
	return &act.Fixed{At: at, Pin: pin, JTIs: fields[2:]}
}

// shown is what a person sees of a draft, as one value: what it does, to which plan, and the
// payloads that the key signs, byte for byte but for the reason, which is given later.
func shown(l *act.Log, d *act.Draft, by signer) (string, error) {
	order := d.Order
	order.Reason = act.YourReason
	plain, err := l.Prepare(&order, by.Principal)
	if err != nil {
		return "", err
	}
	payloads, err := l.Payloads(plain, by.Principal)
	if err != nil {
		return "", err
	}
	text := by.ID + "\n" + d.Consequence()
	if d.Plan != nil {
		text += fmt.Sprintf("\n%d %s", d.Plan.RollbackSet.Size, d.Plan.RollbackSet.Root)
	}
	sum := sha256.Sum256(append([]byte(text+"\n"), bytes.Join(payloads, []byte("\n"))...))
	return hex.EncodeToString(sum[:]), nil
}

func indented(payload []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, payload, "", "  ") != nil {
		return string(payload)
	}
	return b.String()
}

// errChanged reports that an order does something else than the page showed.
var errChanged = errors.New("what this does, or what will be signed, has changed since the page was made: by a field of the form, by the log, or by time. Nothing was signed. Look at it again")

// sign is POST /incidents/{id}/act/{verb}. It signs exactly what the page showed, or
// nothing.
func (k *Console) sign(w http.ResponseWriter, q *http.Request) {
	if p := k.alone(w); p != nil {
		k.write(w, http.StatusServiceUnavailable, p)
		return
	}
	q.Body = http.MaxBytesReader(w, q.Body, formMax)
	if err := q.ParseForm(); err != nil {
		k.answer(w, q, func(*Console, *http.Request) (*page, error) {
			return nil, entry.Refuse(entry.Malformed, "form", "%s", err)
		})
		return
	}
	look := q.PostForm.Get("look") // the key that the act is drafted for, and nothing is signed
	if look != "" {
		q.PostForm.Set("key", look)
		q.PostForm.Del("fixed")
	}
	body, err := k.prepare(q, q.PostForm)
	if err != nil {
		k.answer(w, q, func(*Console, *http.Request) (*page, error) { return nil, err })
		return
	}
	if look != "" {
		k.write(w, http.StatusOK, k.actPage(body))
		return
	}
	index, err := k.carryOut(q, body)
	if err == nil {
		http.Redirect(w, q, body.Back+"?signed="+decimal(index), http.StatusSeeOther)
		return
	}
	status := http.StatusConflict
	if errors.Is(err, ErrDeclined) {
		status = http.StatusForbidden
	}
	q.PostForm.Del("fixed")
	again, failed := k.prepare(q, q.PostForm) // as it would be signed now
	if failed != nil {
		again = body
	}
	again.Alarm = err.Error()
	k.write(w, status, k.actPage(again))
}

// carryOut seals and registers the order of a form, if the order still does what the page
// showed.
func (k *Console) carryOut(q *http.Request, body *actPage) (index uint64, err error) {
	if body.Cannot != "" {
		return 0, errors.New(body.Cannot)
	}
	if q.PostForm.Get("shown") != body.Shown {
		return 0, errChanged
	}
	if body.Fields.Reason && body.Form.Reason == "" {
		return 0, errors.New("give a reason: it stays in the entry")
	}
	if body.Fields.Agent && q.PostForm.Get("agent") == "" {
		return 0, errors.New("name the agent that gets the task")
	}
	if body.Fields.Members && len(body.Form.Release) == 0 {
		return 0, errors.New("choose the members to release")
	}
	place := slices.IndexFunc(body.Keys, func(row keyRow) bool { return row.Checked })
	if place < 0 {
		return 0, errors.New("no key is at hand")
	}
	by := body.Keys[place]
	if by.Why != "" {
		return 0, errors.New(by.Why)
	}
	question := fmt.Sprintf("%s, %s: %s", body.Verb, body.About, body.Consequence)
	if plan := body.draft.Plan; plan != nil {
		question += fmt.Sprintf("; rollback set %s", plan.RollbackSet.Root)
	}
	signer, err := k.cfg.Signing.Unlock(q.Context(), by.ID, by.Principal, q.PostForm.Get("passphrase"), question)
	if err != nil {
		return 0, err
	}
	entries, err := k.cfg.Signing.Seal(signer, func(l *act.Log) (*act.Draft, error) {
		l.Fixed = body.fixed
		draft, err := l.Prepare(&body.draft.Order, signer.Principal)
		if err != nil {
			return nil, err
		}
		if now, err := shown(l, draft, by.signer); err != nil || now != body.Shown {
			return nil, cmp.Or(err, errChanged)
		}
		return draft, nil
	})
	if err != nil {
		return 0, err
	}
	return k.cfg.Signing.Register(q.Context(), entries)
}
