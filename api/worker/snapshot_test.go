package worker

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
)

// secrets are planted in every field that comes from outside.
var secrets = []string{"sk-live-0123456789abcdef", "hunter2hunter2", "ann@example.org", "4111 1111 1111 1111", "the patient asked for his test results on Monday"}

// signed makes an entry and signs it, as it goes to the ledger.
func signed(t *testing.T, body entry.Body) []byte {
	t.Helper()
	e, err := entry.New(body)
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	e.Seal("SHA256:"+strings.Repeat("A", 43), ed25519.Sign(private, e.PAE()))
	return bytes.Join([][]byte{e.AppendEnvelope(nil), e.Payload()}, []byte("\n"))
}

func header() entry.Header {
	return entry.Header{V: 1, JTI: "018f0000-0000-7000-8000-000000000001", Iss: "worker", Aud: "ledger.example", Iat: 1, Wid: "w"}
}

// Secrets in whatever a failing agent says, in its error, its output, its status
// and its context, reach no byte of the signed entries that are made of it, nor
// of what they encode.
func TestNoSecretReachesAnEntry(t *testing.T) {
	planted := "password=" + secrets[1] + " key " + secrets[0] + " of " + secrets[2] + " paid with " + secrets[3] + `, who said "` + secrets[4] + `"`
	for _, s := range []string{"'" + planted, planted, strings.Repeat(planted+"\n", 400)} {
		command := Command{Argv: []string{"/bin/sh", "-c", `cat >&2; exit 3`}, Stdin: strings.NewReader(s), Redact: redact.New(secrets[1:2])}
		e := command.Run(t.Context())
		if e.Failure != Panicked || !bytes.Contains(e.Output, []byte(secrets[0])) {
			t.Fatalf("ending %+v", e)
		}
		p := &Progress{Exec: "worker#1", Turns: -1, MaxTurns: 1 << 60, CostMicroUSD: 7, Messages: 12, Status: secrets[0]}
		snapshot := Snapshot(&e, "worker", p, []byte("the agent's own secret"), append(e.Output, planted...))
		for _, body := range []entry.Body{
			&entry.Task{Header: header(), Task: "op#t", Op: entry.TaskFail, From: entry.TaskInProgress, To: entry.TaskFailed, Reason: e.Text, Epoch: 1, Snapshot: snapshot},
			&entry.Signal{
				Header: header(), Subject: "worker#1", Class: e.Failure.Class, Code: e.Failure.Code, Standing: entry.StandingExecutor, Effects: entry.EffectsUnknown,
				ReplaySafety: entry.ReplayUnknown, ObservedAt: 1, Detail: e.Text,
			},
		} {
			written := signed(t, body)
			for _, secret := range append(secrets, "the agent's own secret") {
				for _, form := range [][]byte{[]byte(secret), []byte(base64.StdEncoding.EncodeToString([]byte(secret))[:8]), []byte(strings.ToUpper(secret))} {
					if bytes.Contains(written, form) {
						t.Errorf("%T: %q is in %s", body, form, written)
					}
				}
			}
		}
		if snapshot.Status != "unknown" || snapshot.Turns != 0 || snapshot.MaxTurns != entry.MaxInteger || snapshot.Messages != 12 || snapshot.Class != "crash" {
			t.Errorf("snapshot %+v", snapshot)
		}
	}
}

// The digest of the context shows who has the secret what it was, and is another
// one with any other secret or context.
func TestSnapshotDigestIsKeyed(t *testing.T) {
	e := &Ending{Failure: Lost, Started: time.UnixMilli(5), Ended: time.UnixMilli(9)}
	p := &Progress{Exec: "worker#1", Status: "in_progress"}
	one := Snapshot(e, "worker", p, []byte("a"), []byte("context"))
	if again := Snapshot(e, "worker", p, []byte("a"), []byte("context")); !reflect.DeepEqual(one, again) || one.StartedAt != 5 || one.TakenAt != 9 || one.Status != "in_progress" {
		t.Errorf("%+v, %+v", one, again)
	}
	for _, other := range []*entry.Snapshot{Snapshot(e, "worker", p, []byte("b"), []byte("context")), Snapshot(e, "worker", p, []byte("a"), []byte("contexT"))} {
		if other.ContextDigest == one.ContextDigest {
			t.Error("the same digest")
		}
	}
}

// FuzzSnapshot: whatever an agent says of itself, the snapshot of it is an entry's.
func FuzzSnapshot(f *testing.F) {
	f.Add("in_progress", int64(3), int64(-1), []byte("context"))
	f.Fuzz(func(t *testing.T, status string, turns, messages int64, context []byte) {
		e := &Ending{Failure: Panicked}
		s := Snapshot(e, "worker", &Progress{Exec: "worker#1", Status: status, Turns: turns, Messages: messages, MaxTurns: turns, CostMicroUSD: messages}, context, context)
		body := &entry.Task{Header: header(), Task: "op#t", Op: entry.TaskFail, From: entry.TaskInProgress, To: entry.TaskFailed, Reason: "r", Epoch: 1, Snapshot: s}
		if _, err := entry.New(body); err != nil {
			t.Fatal(err)
		}
	})
}
