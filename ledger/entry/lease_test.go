package entry_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

func someRenewal() *entry.SignedRenewal {
	return &entry.SignedRenewal{Renewal: entry.Renewal{Aud: "ledger.example/test", Epoch: 1, Iss: "a", Seq: 1, Session: "S", Task: "o#t"},
		KeyID: keyID(ed25519Key("agent").Public()), Sig: bytes.Repeat([]byte{7}, 64)}
}

func someOver() *entry.Snapshot {
	return &entry.Snapshot{Exec: "a#1", Agent: "a", Status: "in_progress", StartedAt: 1, TakenAt: 2, Class: "crash", Code: "oom",
		ContextDigest: "hmac-sha256:" + strings.Repeat("0", 64)}
}

// TestRenewalOver reads back the end of a claim, with the longest names.
func TestRenewalOver(t *testing.T) {
	r := someRenewal()
	r.Over = someOver()
	r.Over.Attempts = entry.MaxAttempts
	if r.Over.Interrupted() {
		t.Error("out of memory is no interruption")
	}
	long := entry.Principal(strings.Repeat("n", entry.MaxName))
	r.Iss, r.Over.Agent, r.Over.Code, r.Aud = long, long, "interrupted", strings.Repeat("l", entry.MaxName)
	r.Task, r.Over.Exec = entry.NewRef(long, string(long)), entry.NewRef(long, string(long))
	body, err := entry.EncodeRenewal(r)
	must(t, err)
	again, err := entry.DecodeRenewal(body)
	if err != nil || !again.Over.Interrupted() || *again.Over != *r.Over {
		t.Errorf("%d bytes: %+v, %v", len(body), again, err)
	}
}

// TestRenewals reads back what is written, and refuses each member that is wrong.
func TestRenewals(t *testing.T) {
	good, err := entry.EncodeRenewal(someRenewal())
	must(t, err)
	if _, err := entry.DecodeRenewal(good); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*entry.SignedRenewal){
		"aud":            func(r *entry.SignedRenewal) { r.Aud = "" },
		"epoch":          func(r *entry.SignedRenewal) { r.Epoch = 0 },
		"iss":            func(r *entry.SignedRenewal) { r.Iss = "a b" },
		"seq":            func(r *entry.SignedRenewal) { r.Seq = -1 },
		"session":        func(r *entry.SignedRenewal) { r.Session = strings.Repeat("s", entry.MaxName+1) },
		"task":           func(r *entry.SignedRenewal) { r.Task = "t" },
		"keyid":          func(r *entry.SignedRenewal) { r.KeyID = "SHA256:" },
		"sig":            func(r *entry.SignedRenewal) { r.Sig = bytes.Repeat([]byte{7}, sigMost+1) },
		"over.agent":     func(r *entry.SignedRenewal) { r.Over = someOver(); r.Over.Agent = "b" },
		"snapshot.turns": func(r *entry.SignedRenewal) { r.Over = someOver(); r.Over.Turns = -1 },
		"snapshot.attempts": func(r *entry.SignedRenewal) {
			r.Over = someOver()
			r.Over.Attempts = entry.MaxAttempts + 1
		},
	} {
		r := someRenewal()
		spoil(r)
		_, err := entry.EncodeRenewal(r)
		if refusal, _ := errors.AsType[*entry.Refusal](err); refusal == nil || refusal.Problem != entry.Malformed || refusal.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, body := range map[string]string{
		"not canonical": " " + string(good), "unknown member": strings.Replace(string(good), `"aud"`, `"AUD":1,"aud"`, 1),
		"twice": strings.Replace(string(good), `"aud"`, `"aud":"x","aud"`, 1), "too large": string(good) + strings.Repeat(" ", entry.MaxRenewal),
	} {
		if _, err := entry.DecodeRenewal([]byte(body)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	other := someRenewal()
	other.Seq = 2
	one, _ := someRenewal().PAE()
	if two, _ := other.PAE(); bytes.Equal(one, two) || !strings.HasPrefix(string(one), "DSSEv1 41 application/vnd.agent-recovery.lease+json ") {
		t.Errorf("PAE %q", one)
	}
}

// TestRenewalAtItsLimit reads the largest renewal that is taken, and not a byte
// more.
func TestRenewalAtItsLimit(t *testing.T) {
	pad := func(size int) []byte { return bytes.Repeat([]byte{' '}, size) }
	for size, want := range map[int]entry.Problem{entry.MaxRenewal: entry.Malformed, entry.MaxRenewal + 1: entry.TooLarge} {
		_, err := entry.DecodeRenewal(pad(size))
		if refusal, _ := errors.AsType[*entry.Refusal](err); refusal == nil || refusal.Problem != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
}

// FuzzDecodeRenewal feeds anything: a refusal, or what is written as it was read.
func FuzzDecodeRenewal(f *testing.F) {
	good, err := entry.EncodeRenewal(someRenewal())
	must(f, err)
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"aud":"a","epoch":1e0}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := entry.DecodeRenewal(body)
		if err != nil {
			if _, ok := errors.AsType[*entry.Refusal](err); !ok {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := entry.EncodeRenewal(r)
		must(t, err)
		if !bytes.Equal(again, body) {
			t.Fatalf("read %q, wrote %q", body, again)
		}
	})
}
