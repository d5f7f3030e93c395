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
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/canonical"
	"recoveryledger/merkle"
)

const (
	payloadTypePrefix = "application/vnd.agent-recovery."
	payloadTypeSuffix = "+json"
)

// Entry is a decoded, well-formed envelope. Callers must not change its fields.
type Entry struct {
	Kind   Kind
	Header *Header // that of Body
	Body   Body    // *Policy, *Agent, *Execution … as Kind says
	KeyID  string  // names the signer's key; an unchecked claim
	Sig    []byte  // over PAE; not checked by this package

	// SignatureChecked says that a caller has checked Sig over PAE with the key of the fingerprint
	// KeyID. It says nothing about the rights of that key.
	SignatureChecked bool

	pae     []byte // nil in entries of records, which hardly anybody asks for it
	payload []byte // the tail of pae, if that is there

	// The last answer of LeafHash.
	leafHash merkle.Hash
	hashedAt int64
	hashed   bool
}

// PAE returns the bytes that the signature covers. Callers must not change the bytes.
func (e *Entry) PAE() []byte {
	if e.pae == nil {
		return append(paeHead(e.Kind, len(e.payload)), e.payload...)
	}
	return e.pae
}

// Payload returns the payload exactly as signed. Callers must not change the bytes.
func (e *Entry) Payload() []byte { return e.payload }

// The fixed text of the canonical envelope.
const (
	envelopeOpen  = `{"payload":"`
	beforeType    = `","payloadType":"`
	beforeKeyID   = `","signatures":[{"keyid":"`
	beforeSig     = `","sig":"`
	envelopeClose = `"}]}`
)

// AppendEnvelope appends the canonical envelope to dst.
func (e *Entry) AppendEnvelope(dst []byte) []byte {
	dst = append(dst, envelopeOpen...)
	dst = base64.StdEncoding.AppendEncode(dst, e.payload)
	dst = append(dst, beforeType+payloadTypePrefix...)
	dst = append(dst, e.Kind...)
	dst = append(dst, payloadTypeSuffix+beforeKeyID...)
	dst = append(dst, e.KeyID...)
	dst = append(dst, beforeSig...)
	dst = base64.StdEncoding.AppendEncode(dst, e.Sig)
	return append(dst, envelopeClose...)
}

const (
	leafOpen  = `{"envelope":`
	leafClose = `,"registered_at":`
)

// AppendLeaf appends the leaf of the entry to dst. registeredAt is in Unix milliseconds.
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
		return nil, tooLarge(len(envelope))
	}
	w, ok := cutCanonical(envelope)
	if !ok {
		var err error
		if w, err = parseEnvelope(envelope); err != nil {
			return nil, err
		}
	}
	kind, err := parsePayloadType(string(w.payloadType))
	if err != nil {
		return nil, err
	}
	e := &Entry{Kind: kind, KeyID: string(w.keyID)}
	if e.Sig, err = appendBase64("signatures[0].sig", nil, w.sig); err != nil {
		return nil, err
	}
	if err := e.checkSeal(); err != nil {
		return nil, err
	}
	// The payload is decoded into its place in the PAE. The entry then holds the bytes of the
	// payload once.
	size := base64.StdEncoding.DecodedLen(len(w.payload)) - bytes.Count(w.payload[max(0, len(w.payload)-2):], []byte("="))
	head := paeHead(kind, size)
	if e.pae, err = appendBase64("payload", head, w.payload); err != nil {
		return nil, err
	}
	e.payload = e.pae[len(head):]
	if err := e.decodePayload(); err != nil {
		return nil, err
	}
	return e, nil
}

func tooLarge(size int) *Refusal {
	return refuse(TooLarge, "", "the envelope has %d bytes, the limit is %d", size, MaxEnvelope).
		remedy("move large content out of the payload and log its digest")
}

// wire has the parts of an envelope. Their text is still in base64.
type wire struct{ payload, payloadType, keyID, sig []byte }

// parseEnvelope reads an envelope in any spelling.
func parseEnvelope(envelope []byte) (wire, error) {
	var parsed struct {
		Payload     string `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			KeyID string `json:"keyid"`
			Sig   string `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(envelope, &parsed, json.RejectUnknownMembers(true)); err != nil {
		return wire{}, asRefusal("envelope", err)
	}
	if len(parsed.Signatures) != 1 {
		return wire{}, malformed("signatures", "%d signatures, want exactly one", len(parsed.Signatures))
	}
	signature := parsed.Signatures[0]
	return wire{[]byte(parsed.Payload), []byte(parsed.PayloadType), []byte(signature.KeyID), []byte(signature.Sig)}, nil
}

// cutCanonical reads an envelope in the spelling of [Entry.AppendEnvelope] without a JSON parser.
// Nearly all envelopes have this spelling. Another spelling is not accepted: with this number of
// quotes and without an escape, all text between the separators is plain text.
func cutCanonical(envelope []byte) (w wire, ok bool) {
	const quotes = 18
	if bytes.Count(envelope, []byte{'"'}) != quotes || bytes.IndexByte(envelope, '\\') >= 0 {
		return wire{}, false
	}
	rest, opened := bytes.CutPrefix(envelope, []byte(envelopeOpen))
	rest, closed := bytes.CutSuffix(rest, []byte(envelopeClose))
	w.payload, rest, _ = bytes.Cut(rest, []byte(beforeType))
	w.payloadType, rest, _ = bytes.Cut(rest, []byte(beforeKeyID))
	w.keyID, w.sig, ok = bytes.Cut(rest, []byte(beforeSig))
	return w, opened && closed && ok
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
	if !bytes.Equal(e.AppendLeaf(make([]byte, 0, len(leaf)), registeredAt), leaf) {
		return nil, 0, malformed("leaf", "not in canonical form (RFC 8785)")
	}
	e.leafHash, e.hashedAt, e.hashed = merkle.HashLeaf(leaf), registeredAt, true
	return e, registeredAt, nil
}

// New returns the unsigned entry of a body. The payload is the RFC 8785 form of body. Sig and KeyID
// are empty until [Entry.Seal].
func New(body Body) (*Entry, error) {
	payload, err := canonicalForm(body)
	if err != nil {
		return nil, err
	}
	return NewRaw(body.Kind(), payload)
}

// canonicalForm returns the RFC 8785 form of a body.
func canonicalForm(body Body) (jsontext.Value, error) {
	payload, err := json.Marshal(body)
	if err == nil {
		err = (*jsontext.Value)(&payload).Canonicalize()
	}
	if err != nil {
		return nil, asRefusal(wholePayload, err)
	}
	return payload, nil
}

// Adopt does what [New] does with an attempt that the caller hands over for good: the entry keeps
// the body, where New reads the body again from the payload. An engine makes thousands of attempts
// a second.
func Adopt(body *Attempt) (*Entry, error) {
	text := scratch.Get().(*[]byte)
	defer scratch.Put(text)
	payload, err := attemptForm().Append((*text)[:0], body)
	*text = payload
	if err != nil {
		payload, err = canonicalForm(body) // says what is wrong
	}
	if err != nil {
		return nil, err
	}
	e, err := unread(KindAttempt, payload)
	if err != nil {
		return nil, err
	}
	e.Body, e.Header = body, &body.Header
	return e, e.check()
}

// attemptForm is the canonical form of attempts.
var attemptForm = sync.OnceValue(canonical.Of[Attempt])

// NewRaw returns the unsigned entry of payload bytes in any spelling. The bytes are checked as
// [Decode] checks them.
func NewRaw(kind Kind, payload []byte) (*Entry, error) {
	if _, err := parsePayloadType(kind.PayloadType()); err != nil {
		return nil, err
	}
	e, err := unread(kind, payload)
	if err != nil {
		return nil, err
	}
	if err := e.decodePayload(); err != nil {
		return nil, err
	}
	return e, nil
}

// unread returns the unsigned entry of a payload, without header and body.
func unread(kind Kind, payload []byte) (*Entry, error) {
	head := paeHead(kind, len(payload))
	e := &Entry{Kind: kind, pae: append(head, payload...)}
	e.payload = e.pae[len(head):]
	if size := sealedSize(kind, len(payload)); size > MaxEnvelope {
		return nil, tooLarge(size)
	}
	return e, nil
}

// sealedSize returns the greatest size that an envelope has once it is sealed.
func sealedSize(kind Kind, payload int) int {
	return len(envelopeOpen+beforeType+beforeKeyID+beforeSig+envelopeClose) + base64.StdEncoding.EncodedLen(payload) + len(kind.PayloadType()) +
		MaxKeyID + base64.StdEncoding.EncodedLen(maxSig)
}

// Seal completes an entry made by [New] with the signature over its PAE.
func (e *Entry) Seal(keyID string, sig []byte) {
	e.KeyID, e.Sig, e.hashed = keyID, bytes.Clone(sig), false
}

func (e *Entry) checkSeal() error {
	return first(checkKeyID("signatures[0].keyid", e.KeyID),
		refuseIf(len(e.Sig) == 0 || len(e.Sig) > maxSig, "signatures[0].sig", "%d bytes, want 1 to %d", len(e.Sig), maxSig))
}

// paeHead returns the pre-authentication encoding up to the payload, with room for the payload.
func paeHead(kind Kind, size int) []byte {
	const slack = 2 // by which base64 rounds up
	payloadTypeLen := len(payloadTypePrefix) + len(kind) + len(payloadTypeSuffix)
	pae := make([]byte, 0, len("DSSEv1 99 ")+payloadTypeLen+len(" 99999 ")+size+slack)
	pae = append(pae, "DSSEv1 "...)
	pae = strconv.AppendInt(pae, int64(payloadTypeLen), 10)
	pae = append(pae, ' ')
	pae = append(pae, payloadTypePrefix...)
	pae = append(pae, kind...)
	pae = append(pae, payloadTypeSuffix+" "...)
	pae = strconv.AppendInt(pae, int64(size), 10)
	return append(pae, ' ')
}

// decodePayload decodes the payload of an envelope for [Decode].
func (e *Entry) decodePayload() error {
	if err := e.readPayload(); err != nil {
		return err
	}
	return e.check()
}

// check checks the payload beyond its types, the header and the body.
func (e *Entry) check() error {
	r := kinds[e.Kind]
	if err := scan(e.payload, r); err != nil {
		return err
	}
	if err := e.Header.check(r); err != nil {
		return err
	}
	return e.Body.check()
}

// readPayload decodes the payload into the body.
func (e *Entry) readPayload() error {
	e.Body = newBody(e.Kind)
	if err := json.Unmarshal(e.payload, e.Body); err != nil {
		return asRefusal(wholePayload, err)
	}
	e.Header = e.Body.header()
	return nil
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

var strictBase64, rawBase64 = base64.StdEncoding.Strict(), base64.RawStdEncoding.Strict()

// appendBase64 decodes padded standard base64 in its one spelling. The strict mode of the library
// would accept line breaks.
func appendBase64(field string, dst, text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, malformed(field, "base64 with line breaks")
	}
	out, err := strictBase64.AppendDecode(dst, text)
	if err != nil {
		return nil, malformed(field, "not standard padded base64: %v", err)
	}
	return out, nil
}
