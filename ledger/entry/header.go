package entry

import (
	"slices"
	"strings"

	"recoveryledger/merkle"
)

// Principal names an issuer of entries: an agent, a person or a service.
type Principal string

// WorkflowID names the workflow of entries. Several agents can work in one workflow.
type WorkflowID string

// Ref names an execution, a checkpoint or a task as "issuer#id". The issuer is that of the first
// entry.
type Ref string

// NewRef returns the reference of an issuer's local id.
func NewRef(issuer Principal, id string) Ref { return Ref(string(issuer) + "#" + id) }

// Split returns the issuer and the local id.
func (r Ref) Split() (Principal, string) {
	issuer, id, _ := strings.Cut(string(r), "#")
	return Principal(issuer), id
}

// Header is what every payload carries.
type Header struct {
	V   int        `json:"v"`             // version of the protocol: 1
	JTI string     `json:"jti"`           // 128-bit id, unique for its issuer: a UUID in lower case
	Iss Principal  `json:"iss"`           // who signs
	Aud string     `json:"aud"`           // origin of the ledger it is for
	Iat int64      `json:"iat"`           // when it was issued, Unix seconds
	Wid WorkflowID `json:"wid,omitempty"` // workflow; absent on policy, agent and index
	// Crit lists members that a reader must understand. A reader that does not understand one of
	// them refuses the entry.
	Crit []string `json:"crit,omitempty"`
}

func (h *Header) header() *Header { return h }

func (h *Header) check(r *rule) error {
	if h.V != 1 {
		return malformed("v", "version %d, want 1", h.V)
	}
	if !isUUID(h.JTI) {
		return malformed("jti", "%.60q is not a UUID in lower case", h.JTI).
			remedy("use a UUID such as 0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21; UUIDs of version 7 sort by time")
	}
	if err := checkName("iss", string(h.Iss)); err != nil {
		return err
	}
	if h.Aud == "" || len(h.Aud) > MaxName {
		return malformed("aud", "%d bytes, want the ledger's origin", len(h.Aud))
	}
	if h.Iat <= 0 {
		return malformed("iat", "%d is not a Unix time in seconds", h.Iat)
	}
	for _, name := range h.Crit {
		if !r.understands(name) {
			return malformed("crit", "member %.60q is critical and not understood", name).
				remedy("upgrade the ledger, or leave the member out")
		}
	}
	if slices.Contains(r.required, "wid") {
		return checkName("wid", string(h.Wid))
	}
	return refuseIf(h.Wid != "", "wid", "an entry of this kind belongs to no workflow")
}

// isUUID reports whether text is a UUID in lower case (RFC 9562, section 4).
func isUUID(text string) bool {
	return len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' &&
		lowerHex(text[:8]) && lowerHex(text[9:13]) && lowerHex(text[14:18]) && lowerHex(text[19:23]) && lowerHex(text[24:])
}

// LogRef points at an entry of the same log.
type LogRef struct {
	Index    uint64      `json:"index"`
	LeafHash merkle.Hash `json:"leaf_hash"`
}

// Evidence points at material that supports a claim. No part of arl fetches the uri.
type Evidence struct {
	Digest Digest `json:"digest"`
	URI    string `json:"uri,omitempty"`
}
