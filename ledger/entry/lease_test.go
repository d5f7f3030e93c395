package entry_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

func someRenewal() *entry.SignedRenewal {
	return &entry.SignedRenewal{Renewal: entry.Renewal{Aud: "ledger.example/test", Iss: "a", Leases: []entry.Lease{{Epoch: 1, Task: "o#t"}}, Seq: 1, Session: "S"},
		KeyID: keyID(ed25519Key("agent").Public()), Sig: bytes.Repeat([]byte{7}, 64)}
}

func someOver() *entry.Snapshot {
	return &entry.Snapshot{Exec: "a#1", Agent: "a", Status: "in_progress", StartedAt: 1, TakenAt: 2, Class: "crash", Code: "oom",
		ContextDigest: entry.Digest("hmac-sha256:" + strings.Repeat("0", 64))}
}

// TestRenewalOver reads back the end of a claim, with the longest names.
func TestRenewalOver(t *testing.T) {
	r := someRenewal()
	over := someOver()
	over.Attempts = entry.MaxAttempts
	if over.Interrupted() {
		t.Error("out of memory is no interruption")
	}
	long := entry.Principal(strings.Repeat("n", entry.MaxName))
	r.Iss, over.Agent, over.Code, r.Aud = long, long, "interrupted", strings.Repeat("l", entry.MaxName)
	over.Exec = entry.NewRef(long, string(long))
	r.Leases = []entry.Lease{{Epoch: 1, Task: over.Exec}, {Epoch: entry.MaxInteger, Over: over, Task: over.Exec}}
	body, err := entry.EncodeRenewal(r)
	must(t, err)
	again, err := entry.DecodeRenewal(body)
	if err != nil || again.Leases[0].Over != nil || !again.Leases[1].Over.Interrupted() || *again.Leases[1].Over != *over {
		t.Errorf("%d bytes: %+v, %v", len(body), again, err)
	}
}

// ends spoils the end of a claim.
func ends(spoil func(*entry.Snapshot)) func(*entry.SignedRenewal) {
	return func(r *entry.SignedRenewal) {
		r.Leases[0].Over = someOver()
		spoil(r.Leases[0].Over)
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
		"aud":                     func(r *entry.SignedRenewal) { r.Aud = "" },
		"iss":                     func(r *entry.SignedRenewal) { r.Iss = "a b" },
		"leases":                  func(r *entry.SignedRenewal) { r.Leases = nil },
		"leases[1].epoch":         func(r *entry.SignedRenewal) { r.Leases = append(r.Leases, entry.Lease{Task: "o#u"}) },
		"leases[0].task":          func(r *entry.SignedRenewal) { r.Leases[0].Task = "t" },
		"seq":                     func(r *entry.SignedRenewal) { r.Seq = -1 },
		"session":                 func(r *entry.SignedRenewal) { r.Session = strings.Repeat("s", entry.MaxName+1) },
		"keyid":                   func(r *entry.SignedRenewal) { r.KeyID = "SHA256:" },
		"sig":                     func(r *entry.SignedRenewal) { r.Sig = bytes.Repeat([]byte{7}, sigMost+1) },
		"leases[0].over.agent":    ends(func(s *entry.Snapshot) { s.Agent = "b" }),
		"leases[0].over.turns":    ends(func(s *entry.Snapshot) { s.Turns = -1 }),
		"leases[0].over.attempts": ends(func(s *entry.Snapshot) { s.Attempts = entry.MaxAttempts + 1 }),
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

// TestLeasesAtTheirLimit reads as many leases as one renewal may name, with the
// longest names that there are, and not one more.
func TestLeasesAtTheirLimit(t *testing.T) {
	long := strings.Repeat("n", entry.MaxName)
	r := someRenewal()
	r.Aud, r.Session, r.Iss, r.Seq = long, long, entry.Principal(long), entry.MaxInteger
	r.Leases = slices.Repeat([]entry.Lease{{Epoch: entry.MaxInteger, Task: entry.NewRef(r.Iss, long)}}, entry.MaxLeases)
	body, err := entry.EncodeRenewal(r)
	must(t, err)
	if again, err := entry.DecodeRenewal(body); err != nil || len(again.Leases) != entry.MaxLeases {
		t.Fatalf("%d bytes: %v", len(body), err)
	}
	r.Leases = append(r.Leases, r.Leases[0])
	_, err = entry.EncodeRenewal(r)
	if refusal, _ := errors.AsType[*entry.Refusal](err); refusal == nil || refusal.Field != "leases" {
		t.Error(err)
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
	many := someRenewal()
	many.Leases = append(many.Leases, entry.Lease{Epoch: 2, Over: someOver(), Task: "o#u"})
	good, err = entry.EncodeRenewal(many)
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
