// Package entry is what the log records: signed objects, their kinds and their
// one canonical form.
//
// An object is JSON, the payload, in a DSSE envelope with exactly one
// signature. The signature covers the pre-authentication encoding (PAE) of the
// payload bytes as sent; nothing is serialized again to verify it:
//
//	envelope = {"payload": base64, "payloadType": "application/vnd.agent-recovery.<kind>+json",
//	            "signatures": [{"keyid": "SHA256:…", "sig": base64}]}
//	PAE      = "DSSEv1" SP len(type) SP type SP len(payload) SP payload
//	leaf     = RFC 8785 JSON of {"envelope": envelope, "registered_at": milliseconds}
//
// [Decode] is rule REG-1 of the protocol: size, JSON, kind, schema. It fails
// closed with a [*Refusal] that names the member, what is wrong and the remedy.
// The package is pure: it checks no signature, reads no clock and knows no
// storage.
//
// Sources: DSSE v1.0.2 (github.com/secure-systems-lab/dsse), RFC 8259, RFC 8785.
package entry

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	payloadTypePrefix = "application/vnd.agent-recovery."
	payloadTypeSuffix = "+json"
)

// Entry is a decoded, well-formed envelope. Its fields are not to be changed.
type Entry struct {
	Kind   Kind
	Header *Header // that of Body
	Body   Body    // *Policy, *Agent, *Execution … as Kind says
	KeyID  string  // names the signer's key; an unchecked claim
	Sig    []byte  // over PAE; not checked by this package

	// SignatureChecked is set by whoever has checked Sig over PAE under the key
	// that KeyID is the fingerprint of. It says nothing of that key's rights.
	SignatureChecked bool

	pae     []byte
	payload []byte // the tail of pae
}

// PAE returns the bytes that the signature covers. They are not to be changed.
func (e *Entry) PAE() []byte { return e.pae }

// Payload returns the payload exactly as signed. It is not to be changed.
func (e *Entry) Payload() []byte { return e.payload }

// AppendEnvelope appends the canonical envelope to dst.
func (e *Entry) AppendEnvelope(dst []byte) []byte {
	dst = append(dst, `{"payload":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, e.payload)
	dst = append(dst, `","payloadType":"`+payloadTypePrefix...)
	dst = append(dst, e.Kind...)
	dst = append(dst, payloadTypeSuffix+`","signatures":[{"keyid":"`...)
	dst = append(dst, e.KeyID...)
	dst = append(dst, `","sig":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, e.Sig)
	return append(dst, `"}]}`...)
}

const (
	leafOpen  = `{"envelope":`
	leafClose = `,"registered_at":`
)

// AppendLeaf appends the leaf of the entry registered at the given instant (Unix
// milliseconds) to dst.
func (e *Entry) AppendLeaf(dst []byte, registeredAt int64) []byte {
	dst = append(dst, leafOpen...)
	dst = e.AppendEnvelope(dst)
	dst = append(dst, leafClose...)
	dst = strconv.AppendInt(dst, registeredAt, 10)
	return append(dst, '}')
}

// Decode reads an envelope in any JSON spelling and the payload in it. The
// error is a [*Refusal]: malformed, unsupported-alg or too-large.
func Decode(envelope []byte) (*Entry, error) {
	if len(envelope) > MaxEnvelope {
		return nil, refuse(TooLarge, "", "the envelope has %d bytes, the limit is %d", len(envelope), MaxEnvelope).
			remedy("move large content out of the payload and log its digest")
	}
	var wire struct {
		Payload     string `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			KeyID string `json:"keyid"`
			Sig   string `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(envelope, &wire, json.RejectUnknownMembers(true)); err != nil {
		return nil, malformed("envelope", "not a DSSE envelope: %s", jsonCause(err))
	}
	if len(wire.Signatures) != 1 {
		return nil, malformed("signatures", "%d signatures, want exactly one", len(wire.Signatures))
	}
	kind, err := parsePayloadType(wire.PayloadType)
	if err != nil {
		return nil, err
	}
	e := &Entry{Kind: kind, KeyID: wire.Signatures[0].KeyID}
	if e.Sig, err = decodeBase64("signatures[0].sig", wire.Signatures[0].Sig); err != nil {
		return nil, err
	}
	if err := checkKeyID("signatures[0].keyid", e.KeyID); err != nil {
		return nil, err
	}
	if len(e.Sig) == 0 || len(e.Sig) > maxSig {
		return nil, malformed("signatures[0].sig", "%d bytes, want 1 to %d", len(e.Sig), maxSig)
	}
	if err := e.setPayload(wire.PayloadType, wire.Payload); err != nil {
		return nil, err
	}
	return e, e.decodePayload()
}

// DecodeLeaf reads a leaf. It accepts exactly what [Entry.AppendLeaf] makes.
func DecodeLeaf(leaf []byte) (e *Entry, registeredAt int64, err error) {
	rest, ok := bytes.CutPrefix(leaf, []byte(leafOpen))
	at := bytes.LastIndex(rest, []byte(leafClose))
	if !ok || at < 0 || leaf[len(leaf)-1] != '}' {
		return nil, 0, malformed("leaf", `not {"envelope":…,"registered_at":…}`)
	}
	registeredAt, err = strconv.ParseInt(string(rest[at+len(leafClose):len(rest)-1]), 10, 64)
	if err != nil || registeredAt < 0 || registeredAt > MaxInteger {
		return nil, 0, malformed("registered_at", "not Unix milliseconds")
	}
	if e, err = Decode(rest[:at]); err != nil {
		return nil, 0, err
	}
	if !bytes.Equal(e.AppendLeaf(nil, registeredAt), leaf) {
		return nil, 0, malformed("leaf", "not in canonical form (RFC 8785)")
	}
	return e, registeredAt, nil
}

// New returns the entry that holds body, to be signed: Sig and KeyID are empty
// until [Entry.Seal]. The payload is the RFC 8785 form of body.
func New(body Body) (*Entry, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, malformed("payload", "%s", jsonCause(err))
	}
	if err := (*jsontext.Value)(&payload).Canonicalize(); err != nil {
		return nil, malformed("payload", "%s", jsonCause(err))
	}
	return NewRaw(body.Kind(), payload)
}

// NewRaw is [New] for payload bytes that are there already, in whatever
// spelling; they are checked as [Decode] would.
func NewRaw(kind Kind, payload []byte) (*Entry, error) {
	e := &Entry{Kind: kind}
	if err := e.setPayload(kind.PayloadType(), base64.StdEncoding.EncodeToString(payload)); err != nil {
		return nil, err
	}
	return e, e.decodePayload()
}

// Seal completes an entry made by [New] with the signature over its PAE.
func (e *Entry) Seal(keyID string, sig []byte) {
	e.KeyID, e.Sig = keyID, bytes.Clone(sig)
}

// setPayload decodes the payload straight into its place in the PAE, so that
// an entry holds its bytes once.
func (e *Entry) setPayload(payloadType, encoded string) error {
	size := base64.StdEncoding.DecodedLen(len(encoded)) - strings.Count(encoded[max(0, len(encoded)-2):], "=")
	pae := appendPAEHead(make([]byte, 0, len(payloadType)+size+paeOverhead), payloadType, size)
	head := len(pae)
	pae, err := appendBase64("payload", pae, encoded)
	if err != nil {
		return err
	}
	e.pae, e.payload = pae, pae[head:]
	return nil
}

func (e *Entry) decodePayload() error {
	e.Body = newBody(e.Kind)
	if err := json.Unmarshal(e.payload, e.Body); err != nil {
		return asRefusal(err)
	}
	shape, err := scan(e.payload)
	if err != nil {
		return err
	}
	e.Header = e.Body.header()
	if err := shape.checkMembers(e.Kind, e.Header.Crit); err != nil {
		return err
	}
	if err := e.Header.check(e.Kind); err != nil {
		return err
	}
	return e.Body.check()
}

func parsePayloadType(payloadType string) (Kind, error) {
	name, ok := strings.CutPrefix(payloadType, payloadTypePrefix)
	if ok {
		name, ok = strings.CutSuffix(name, payloadTypeSuffix)
	}
	kind := Kind(name)
	if !ok || !kind.known() {
		return "", malformed("payloadType", "%.80q is not a kind of entry", payloadType).
			remedy("use " + payloadTypePrefix + "<kind>" + payloadTypeSuffix + " with a kind of the protocol")
	}
	return kind, nil
}

func decodeBase64(field, text string) ([]byte, error) {
	return appendBase64(field, nil, text)
}

// appendBase64 accepts standard padded base64 in its one spelling; the
// library's strict mode still skips line breaks.
func appendBase64(field string, dst []byte, text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, malformed(field, "base64 with line breaks")
	}
	out, err := base64.StdEncoding.Strict().AppendDecode(dst, []byte(text))
	if err != nil {
		return nil, malformed(field, "not standard padded base64: %v", err)
	}
	return out, nil
}
