package entry

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// leaseType is the payload type of what the holder of a task signs to renew its
// lease. It is no kind of entry: a signature of the one is none of the other.
const leaseType = payloadTypePrefix + "lease" + payloadTypeSuffix

// Renewal is what an agent says to renew leases that it holds (TSK-2), any number
// of them under one signature; a coordinator judges each by itself. It is never
// logged. Heard again it says nothing new: a coordinator takes each Seq of its
// Session once for a lease, and every start begins a new Session.
type Renewal struct {
	Aud     string    `json:"aud"`     // origin of the ledger
	Iss     Principal `json:"iss"`     // who holds the tasks
	Leases  []Lease   `json:"leases"`  // 1 to [MaxLeases]
	Seq     int64     `json:"seq"`     // larger than in every renewal of these leases before, from 1
	Session string    `json:"session"` // of the coordinator, as it tells with the tasks
}

// Lease is one that a [Renewal] names.
type Lease struct {
	Epoch int64 `json:"epoch"` // of the claim
	// Over says that the claim has come to an end, and how, in place of renewing
	// it: the coordinator then writes that the task failed, or was interrupted
	// if class and code are crash.interrupted.
	Over *Snapshot `json:"over,omitzero"`
	Task Ref       `json:"task"`
}

// Interrupted reports whether the failure was a graceful interruption, which
// costs no retry.
func (s *Snapshot) Interrupted() bool { return s.Class == "crash" && s.Code == "interrupted" }

// SignedRenewal is a renewal with the signature over its PAE.
type SignedRenewal struct {
	Renewal
	KeyID string `json:"keyid"` // fingerprint of the key, enrolled for Iss
	Sig   []byte `json:"sig"`
}

// PAE returns the bytes that the signature covers: the DSSE pre-authentication
// encoding of the RFC 8785 form of the renewal, without keyid and sig.
func (r *Renewal) PAE() ([]byte, error) {
	payload, err := json.Marshal(r)
	if err == nil {
		err = (*jsontext.Value)(&payload).Canonicalize()
	}
	if err != nil {
		return nil, asRefusal("renewal", err)
	}
	pae := append([]byte("DSSEv1 "), strconv.Itoa(len(leaseType))+" "+leaseType+" "+strconv.Itoa(len(payload))+" "...)
	return append(pae, payload...), nil
}

// EncodeRenewal returns the one form of a signed renewal that [DecodeRenewal]
// reads.
func EncodeRenewal(r *SignedRenewal) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(r)
	if err == nil {
		err = (*jsontext.Value)(&body).Canonicalize()
	}
	if err != nil {
		return nil, asRefusal("renewal", err)
	}
	return body, nil
}

// DecodeRenewal reads a signed renewal. The error is a [*Refusal]: malformed or
// too-large.
func DecodeRenewal(body []byte) (*SignedRenewal, error) {
	if len(body) > MaxRenewal {
		return nil, refuse(TooLarge, "", "the renewal has %d bytes, the limit is %d", len(body), MaxRenewal)
	}
	r := &SignedRenewal{}
	if err := json.Unmarshal(body, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, asRefusal("renewal", err)
	}
	canonical, err := EncodeRenewal(r)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(canonical, body) {
		return nil, malformed("renewal", "not in canonical form (RFC 8785), or a member is missing")
	}
	return r, nil
}

func (r *SignedRenewal) check() error {
	return first(
		refuseIf(r.Aud == "" || len(r.Aud) > MaxName, "aud", "%d bytes, want the ledger's origin", len(r.Aud)),
		checkName("iss", string(r.Iss)),
		refuseIf(len(r.Leases) == 0 || len(r.Leases) > MaxLeases, "leases", "%d leases, want 1 to %d", len(r.Leases), MaxLeases),
		each("leases", r.Leases, func(l *Lease) error { return l.check(r.Iss) }),
		refuseIf(r.Seq < 1 || r.Seq > MaxInteger, "seq", "%d, want a positive number", r.Seq),
		checkName("session", r.Session),
		checkKeyID("keyid", r.KeyID),
		refuseIf(len(r.Sig) == 0 || len(r.Sig) > maxSig, "sig", "%d bytes, want 1 to %d", len(r.Sig), maxSig))
}

func (l *Lease) check(holder Principal) error {
	err := first(
		refuseIf(l.Epoch < 1 || l.Epoch > MaxInteger, "epoch", "%d, want the epoch of a claim", l.Epoch),
		checkRef("task", l.Task))
	if err != nil || l.Over == nil {
		return err
	}
	return inside("over", first(l.Over.check(), refuseIf(l.Over.Agent != holder, "agent", "the holder is %s, and the entry names %s", holder, l.Over.Agent)))
}
