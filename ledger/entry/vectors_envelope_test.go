package entry_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"filippo.io/edwards25519"

	"recoveryledger/ledger/entry"
)

// signed returns the minimal execution, signed with Ed25519.
func signed(tb testing.TB) *entry.Entry {
	tb.Helper()
	e, err := entry.New(minimal(tb, entry.KindExecution))
	must(tb, err)
	key := ed25519Key("agent")
	e.Seal(keyID(key.Public()), ed25519.Sign(key, e.PAE()))
	return e
}

// envelope adds a vector of an envelope; a good one has the agent's signature.
func (s *vectorSet) envelope(name, desc string, input any, wantErr entry.Problem, field string) {
	s.t.Helper()
	v := &vector{Desc: desc, Input: input, WantErr: string(wantErr), Field: field}
	s.add("envelope/"+name, v)
	if wantErr == "" {
		s.accept(v, publicKey(s.t, "agent").String())
	}
}

// accept completes the vector of a good envelope.
func (s *vectorSet) accept(v *vector, key string) {
	s.t.Helper()
	e, err := entry.Decode(inputBytes(s.t, v.Input))
	must(s.t, err)
	v.Key, v.RegisteredAt = key, new(int64(registeredAt))
	v.Want = wantOf(s.t, e, key, registeredAt)
}

// pieces are the values of the members of an envelope, as JSON text.
type pieces struct{ payload, payloadType, keyID, sig string }

func piecesOf(e *entry.Entry) pieces {
	return pieces{base64.StdEncoding.EncodeToString(e.Payload()), e.Kind.PayloadType(), e.KeyID, base64.StdEncoding.EncodeToString(e.Sig)}
}

func (p pieces) signature() string { return `{"keyid":"` + p.keyID + `","sig":"` + p.sig + `"}` }

func (p pieces) join() string {
	return `{"payload":"` + p.payload + `","payloadType":"` + p.payloadType + `","signatures":[` + p.signature() + `]}`
}

func (s *vectorSet) addEnvelopes() {
	e := signed(s.t)
	p := piecesOf(e)
	canonical := p.join()
	good := func(name, desc string, input any) { s.envelope(name, desc, input, "", "") }
	bad := func(name, desc string, input any, field string) {
		s.envelope(name, desc, input, entry.Malformed, field)
	}
	replaced := func(old, with string) string {
		if strings.Count(canonical, old) != 1 {
			s.t.Fatalf("%s stands %d times", old, strings.Count(canonical, old))
		}
		return strings.Replace(canonical, old, with, 1)
	}

	good("canonical", "the canonical spelling", canonical)
	good("white-space", "white space between the tokens", " {\n"+strings.NewReplacer(`":`, `" : `, `,"`, ",\r\n\t\"", `]}`, " ] }\n").Replace(canonical[1:]))
	good("order", "members in another order",
		`{"signatures":[{"sig":"`+p.sig+`","keyid":"`+p.keyID+`"}],"payloadType":"`+p.payloadType+`","payload":"`+p.payload+`"}`)
	good("escapes", "names and values with escapes", strings.NewReplacer(`"keyid"`, `"\u006beyid"`, "vnd.", `\u0076nd.`, "/", `\/`).Replace(canonical))

	bad("empty", "no bytes", "", "envelope")
	bad("null", "null", "null", "signatures")
	bad("array", "a list", "["+canonical+"]", "envelope")
	bad("cut", "the last bracket is missing", canonical[:len(canonical)-1], "envelope")
	bad("trailing-bytes", "a second envelope behind the first", canonical+canonical, "envelope")
	bad("bom", "a byte order mark", "\uFEFF"+canonical, "envelope")
	bad("unknown-member", "a member that no envelope has", replaced(`"payloadType"`, `"note":"","payloadType"`), "note")
	bad("unknown-member-null", "the same, null", replaced(`"payloadType"`, `"note":null,"payloadType"`), "note")
	bad("unknown-in-signature", "a member that no signature has", replaced(`"keyid"`, `"cert":"","keyid"`), "signatures[0].cert")
	bad("case-payload", "PAYLOAD in upper case", replaced(`"payload":`, `"PAYLOAD":`), "PAYLOAD")
	bad("case-type", "payloadtype in lower case", replaced(`"payloadType":`, `"payloadtype":`), "payloadtype")
	bad("case-keyid", "keyID with a capital", replaced(`"keyid":`, `"keyID":`), "signatures[0].keyID")
	bad("twice-payload", "two payloads", replaced(`{"payload":`, `{"payload":"e30=","payload":`), "payload")
	bad("twice-payload-escaped", "two payloads, one with an escape", replaced(`{"payload":`, `{"p\u0061yload":"e30=","payload":`), "payload")
	bad("twice-signatures", "two lists of signatures", replaced(`"signatures":[`, `"signatures":[],"signatures":[`), "signatures")
	bad("twice-sig", "two values of one signature", replaced(`"sig":"`, `"sig":"AA==","sig":"`), "signatures[0].sig")
	bad("missing-payload", "no payload", replaced(`"payload":"`+p.payload+`",`, ""), "payload")
	bad("missing-type", "no payloadType", replaced(`"payloadType":"`+p.payloadType+`",`, ""), "payloadType")
	bad("missing-signatures", "no signatures", replaced(`,"signatures":[`+p.signature()+`]`, ""), "signatures")
	bad("missing-keyid", "no keyid", replaced(`"keyid":"`+p.keyID+`",`, ""), "signatures[0].keyid")
	bad("missing-sig", "no sig", replaced(`,"sig":"`+p.sig+`"`, ""), "signatures[0].sig")
	bad("null-payload", "null for the payload", replaced(`"`+p.payload+`"`, "null"), "payload")
	bad("null-signatures", "null for the signatures", replaced(`[`+p.signature()+`]`, "null"), "signatures")
	bad("null-signature", "null for a signature", replaced(p.signature(), "null"), "signatures[0].keyid")
	bad("type-payload", "an object for the payload, not base64 of one", replaced(`"`+p.payload+`"`, "{}"), "payload")
	bad("type-signatures", "an object for the signatures", replaced(`[`+p.signature()+`]`, p.signature()), "signatures")
	bad("type-keyid", "a number for the keyid", replaced(`"`+p.keyID+`"`, "7"), "signatures[0].keyid")
	bad("signatures-none", "no signature", replaced(p.signature(), ""), "signatures")
	bad("signatures-same-twice", "the same signature twice", replaced(p.signature(), p.signature()+","+p.signature()), "signatures")
	other := `{"keyid":"` + keyID(ed25519Key("other").Public()) + `","sig":"AA=="}`
	bad("signatures-two", "two signatures", replaced(p.signature(), p.signature()+","+other), "signatures")
	bad("signatures-100", "a hundred signatures", parts(`{"payload":"`+p.payload+`","payloadType":"`+p.payloadType+`","signatures":[`+p.signature(),
		repeat(`,{"keyid":"","sig":""}`, 99), `]}`), "signatures")
	s.addEnvelopeValues(p, replaced)
	s.addEnvelopeSizes(canonical)
}

// addEnvelopeValues covers the spellings of base64, type and key id.
func (s *vectorSet) addEnvelopeValues(p pieces, replaced func(old, with string) string) {
	bad := func(name, desc string, input any, field string) {
		s.envelope(name, desc, input, entry.Malformed, field)
	}
	payload := func(with string) string { return replaced(`"`+p.payload+`"`, `"`+with+`"`) }
	sig := func(with string) string { return replaced(`"`+p.sig+`"`, `"`+with+`"`) }
	id := func(with string) string { return replaced(`"`+p.keyID+`"`, `"`+with+`"`) }
	kind := func(with string) string { return replaced(`"`+p.payloadType+`"`, `"`+with+`"`) }

	// The payload ends in one padding character.
	bad("base64-empty", "an empty payload", payload(""), "payload")
	bad("base64-unpadded", "a payload without padding", payload(strings.TrimRight(p.payload, "=")), "payload")
	bad("base64-overpadded", "a payload with too much padding", payload(p.payload+"="), "payload")
	bad("base64-padding-bits", "padding bits that are not zero", payload(strings.TrimSuffix(p.payload, "0=")+"1="), "payload")
	bad("base64-line-feed", "a payload with a line feed", payload(p.payload[:64]+`\n`+p.payload[64:]), "payload")
	bad("base64-carriage-return", "a payload with a carriage return", payload(p.payload[:64]+`\r`+p.payload[64:]), "payload")
	bad("base64-space", "a payload with a space", payload(p.payload[:64]+` `+p.payload[64:]), "payload")
	bad("base64-url", "a payload in URL-safe base64", payload("-_8="), "payload")
	bad("base64-not", "a payload that is JSON, not base64", payload(`{}`), "payload")
	bad("base64-sig-unpadded", "a signature without padding", sig(strings.TrimRight(p.sig, "=")), "signatures[0].sig")
	bad("base64-sig-line-break", "a signature with a line break", sig(p.sig+`\n`), "signatures[0].sig")
	bad("base64-sig-padding-bits", "a signature with padding bits that are not zero",
		sig(base64.StdEncoding.EncodeToString(make([]byte, 64))[:85]+"B=="), "signatures[0].sig")
	bad("sig-empty", "an empty signature", sig(""), "signatures[0].sig")
	bad("sig-of-73", "a signature of 73 bytes", sig(base64.StdEncoding.EncodeToString(make([]byte, 73))), "signatures[0].sig")
	s.envelope("sig-of-72", "72 bytes are well-formed, though no signature", sig(base64.StdEncoding.EncodeToString(make([]byte, 72))), "", "")
	s.envelope("sig-of-1", "one byte is well-formed, though no signature", sig("AA=="), "", "")

	raw := strings.TrimPrefix(p.keyID, "SHA256:")
	bad("keyid-empty", "an empty keyid", id(""), "signatures[0].keyid")
	bad("keyid-without-prefix", "a keyid without SHA256:", id(raw), "signatures[0].keyid")
	bad("keyid-prefix-case", "a keyid with sha256: in lower case", id("sha256:"+raw), "signatures[0].keyid")
	bad("keyid-padded", "a keyid with padding", id(p.keyID+"="), "signatures[0].keyid")
	bad("keyid-short", "a keyid one character short", id(p.keyID[:49]), "signatures[0].keyid")
	bad("keyid-url", "a keyid in URL-safe base64", id("SHA256:"+strings.Repeat("-", 42)+"A"), "signatures[0].keyid")
	for i, last := range []string{"B", "C", "/"} {
		bad(fmt.Sprintf("keyid-last-bits-%d", i+1), "a keyid whose last character has bits that do not count",
			id("SHA256:"+strings.Repeat("A", 42)+last), "signatures[0].keyid")
	}
	bad("keyid-hex", "a keyid in hexadecimal", id(sha256Hex([]byte(raw))), "signatures[0].keyid")
	bad("keyid-md5", "an MD5 fingerprint", id("MD5:16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48"), "signatures[0].keyid")
	bad("keyid-line-break", "a keyid with a line break in the place of a character", id("SHA256:"+raw[:20]+`\n`+raw[21:]), "signatures[0].keyid")
	bad("keyid-escape", "a keyid with a quote in it", id(`SHA256:\"`+raw[:42]), "signatures[0].keyid")

	bad("type-empty", "an empty payloadType", kind(""), "payloadType")
	bad("type-unknown-kind", "a kind that the protocol does not have", kind("application/vnd.agent-recovery.verdict+json"), "payloadType")
	bad("type-no-kind", "no kind", kind("application/vnd.agent-recovery.+json"), "payloadType")
	bad("type-upper-case", "a kind in upper case", kind("application/vnd.agent-recovery.Execution+json"), "payloadType")
	bad("type-parameter", "a type with a parameter", kind("application/vnd.agent-recovery.execution+json; charset=utf-8"), "payloadType")
	bad("type-in-toto", "the type of others", kind("application/vnd.in-toto+json"), "payloadType")
	bad("type-of-another-kind", "an execution as checkpoint", kind("application/vnd.agent-recovery.checkpoint+json"), "checkpoint")
	bad("payload-not-json", "a payload that is not JSON", payload(base64.StdEncoding.EncodeToString([]byte("hello"))), "payload")
	bad("payload-refused", "a payload without members", payload("e30="), "v")
}

// addEnvelopeSizes stands at the limit and one byte past it.
func (s *vectorSet) addEnvelopeSizes(canonical string) {
	pad := entry.MaxEnvelope - len(canonical)
	s.envelope("size-limit", "49,152 bytes, most of them spaces", parts(canonical, repeat(" ", pad)), "", "")
	s.envelope("size-past-limit", "49,153 bytes", parts(canonical, repeat(" ", pad+1)), entry.TooLarge, "")
	s.envelope("size-megabyte", "a megabyte of brackets", parts(repeat("[", 1<<20)), entry.TooLarge, "")

	base := string(payloadOf(s.t, minimal(s.t, entry.KindExecution)))
	head, tail := strings.TrimSuffix(base, "}")+`,"x":"`, `"}`
	e := signed(s.t)
	p := piecesOf(e)
	p.payload = ""
	around := p.join()
	room := entry.MaxEnvelope - len(around)
	fill := room/4*3 - len(head) - len(tail)
	before, after, _ := strings.Cut(around, `"payload":"`)
	input := parts(before+`"payload":"`, encoded(head, repeat("x", fill), tail), after, repeat(" ", room%4))
	s.envelope("size-limit-payload", "49,152 bytes, most of them payload; the signature is another one's", input, "", "")
}

// addSignatures covers verdicts on signatures of well-formed envelopes.
func (s *vectorSet) addSignatures() {
	e, err := entry.New(minimal(s.t, entry.KindExecution))
	must(s.t, err)
	pae := e.PAE()
	key, other := ed25519Key("agent"), ed25519Key("other")
	signature := func(name, desc string, public crypto.PublicKey, sig []byte, valid bool) {
		s.t.Helper()
		parsed, err := entry.NewPublicKey(public)
		must(s.t, err)
		e.Seal(parsed.KeyID(), sig)
		v := &vector{Desc: desc, Input: string(e.AppendEnvelope(nil))}
		s.accept(v, parsed.String())
		if *v.Want.Signature != valid {
			s.t.Fatalf("%s: the signature is valid: %v", name, !valid)
		}
		s.add("envelope/signature-"+name, v)
	}
	sig := ed25519.Sign(key, pae)
	flipped := func(sig []byte, i int) []byte {
		sig = slices.Clone(sig)
		sig[i] ^= 1
		return sig
	}
	signature("ed25519", "Ed25519", key.Public(), sig, true)
	signature("ed25519-r-flipped", "Ed25519, one bit of R flipped", key.Public(), flipped(sig, 0), false)
	signature("ed25519-s-flipped", "Ed25519, one bit of S flipped", key.Public(), flipped(sig, 32), false)
	signature("ed25519-other-key", "Ed25519, made with another key", key.Public(), ed25519.Sign(other, pae), false)
	signature("ed25519-of-payload", "Ed25519 over the payload instead of the PAE", key.Public(), ed25519.Sign(key, e.Payload()), false)
	otherType := entry.KindCheckpoint.PayloadType()
	otherPAE := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(otherType), otherType, len(e.Payload()), e.Payload())
	signature("ed25519-other-type", "Ed25519 over the PAE of another type", key.Public(), ed25519.Sign(key, otherPAE), false)
	signature("ed25519-short", "Ed25519, cut to 63 bytes", key.Public(), sig[:63], false)
	signature("ed25519-long", "Ed25519, one byte more", key.Public(), append(slices.Clone(sig), 0), false)
	s.addEdwardsSignatures(key, pae, signature)

	p256 := ecdsaKey(s.t, elliptic.P256(), "agent")
	digest := sha256.Sum256(pae)
	asn, err := p256.Sign(nil, digest[:], crypto.SHA256) // deterministic, RFC 6979
	must(s.t, err)
	var rs struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(asn, &rs)
	must(s.t, err)
	der := func(r, s *big.Int) []byte {
		out, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
		if err != nil {
			panic(err)
		}
		return out
	}
	order := elliptic.P256().Params().N
	signature("p256", "ECDSA P-256", p256.Public(), asn, true)
	signature("p256-other-s", "ECDSA P-256, with the other of the two S: valid as well", p256.Public(), der(rs.R, new(big.Int).Sub(order, rs.S)), true)
	signature("p256-flipped", "ECDSA P-256, one bit flipped", p256.Public(), flipped(asn, len(asn)-1), false)
	raw := append(rs.R.FillBytes(make([]byte, 32)), rs.S.FillBytes(make([]byte, 32))...)
	signature("p256-raw", "ECDSA P-256 as 64 bytes instead of DER", p256.Public(), raw, false)
	signature("p256-zero", "ECDSA P-256, r and s zero", p256.Public(), der(new(big.Int), new(big.Int)), false)
	signature("p256-s-large", "ECDSA P-256, the order added to s", p256.Public(), der(rs.R, new(big.Int).Add(order, rs.S)), false)
	signature("p256-negative", "ECDSA P-256, r negative", p256.Public(), der(new(big.Int).Neg(rs.R), rs.S), false)
	signature("p256-trailing", "ECDSA P-256, a byte behind the DER", p256.Public(), append(slices.Clone(asn), 0), false)
	signature("p256-long-length", "ECDSA P-256, a length in two bytes where one does", p256.Public(), append([]byte{0x30, 0x81}, asn[1:]...), false)
	signature("p256-is-ed25519", "an Ed25519 signature under an ECDSA key", p256.Public(), sig, false)
}

// addEdwardsSignatures covers what implementations of Ed25519 disagree on; the
// standard library's verdict, without cofactor, is ours.
func (s *vectorSet) addEdwardsSignatures(key ed25519.PrivateKey, pae []byte, signature func(string, string, crypto.PublicKey, []byte, bool)) {
	s.t.Helper()
	sig := ed25519.Sign(key, pae)
	order, ok := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	if !ok {
		s.t.Fatal("order of the group")
	}
	little := slices.Clone(sig[32:])
	slices.Reverse(little)
	larger := new(big.Int).Add(new(big.Int).SetBytes(little), order).FillBytes(make([]byte, 32))
	slices.Reverse(larger)
	signature("ed25519-s-large", "Ed25519, the order of the group added to S", key.Public(), append(slices.Clone(sig[:32]), larger...), false)

	secret := sha512Sum(key.Seed())
	a, err := edwards25519.NewScalar().SetBytesWithClamping(secret[:32])
	must(s.t, err)
	// withR makes the signature that a given R and a known discrete logarithm allow.
	withR := func(r []byte, logarithm *edwards25519.Scalar, public []byte) []byte {
		sum := sha512Sum(r, public, pae)
		k, err := edwards25519.NewScalar().SetUniformBytes(sum)
		must(s.t, err)
		return append(slices.Clone(r), edwards25519.NewScalar().MultiplyAdd(k, a, logarithm).Bytes()...)
	}
	public := []byte(key.Public().(ed25519.PublicKey))
	identity := append([]byte{1}, make([]byte, 31)...)
	signature("ed25519-r-identity", "Ed25519, R is the identity: valid without cofactor too", key.Public(),
		withR(identity, edwards25519.NewScalar(), public), true)
	noncanonical := append([]byte{0xee}, append(slices.Repeat([]byte{0xff}, 30), 0x7f)...)
	signature("ed25519-r-non-canonical", "Ed25519, R is the identity in another encoding", key.Public(),
		withR(noncanonical, edwards25519.NewScalar(), public), false)

	// A key with a component of order 8 is no weak key; a signature that is good
	// only after multiplication by the cofactor is none.
	torsion, err := new(edwards25519.Point).SetBytes(smallOrderPoints[7])
	must(s.t, err)
	point, err := new(edwards25519.Point).SetBytes(public)
	must(s.t, err)
	mixed := new(edwards25519.Point).Add(point, torsion).Bytes()
	r, err := edwards25519.NewScalar().SetUniformBytes(sha512Sum([]byte("nonce")))
	must(s.t, err)
	commitment := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
	signature("ed25519-cofactored-only", "Ed25519, valid only if multiplied by the cofactor", ed25519.PublicKey(mixed),
		withR(commitment, r, mixed), false)
}

// addLeaves covers the canonical form of a leaf.
func (s *vectorSet) addLeaves() {
	e := signed(s.t)
	envelope := string(e.AppendEnvelope(nil))
	key := publicKey(s.t, "agent").String()
	good := func(name, desc string, at int64) {
		v := &vector{Desc: desc, Input: string(e.AppendLeaf(nil, at)), Key: key, RegisteredAt: &at, Want: wantOf(s.t, e, key, at)}
		s.add("leaf/"+name, v)
	}
	bad := func(name, desc, input, field string) {
		s.add("leaf/"+name, &vector{Desc: desc, Input: input, WantErr: string(entry.Malformed), Field: field})
	}
	with := func(at string) string { return `{"envelope":` + envelope + `,"registered_at":` + at + `}` }
	good("canonical", "the canonical form", registeredAt)
	good("at-zero", "registered at 0", 0)
	good("at-largest", "registered at 2^53 − 1", entry.MaxInteger)
	bad("empty", "no bytes", "", "leaf")
	bad("envelope-alone", "an envelope", envelope, "leaf")
	bad("at-missing", "no registered_at", `{"envelope":`+envelope+`}`, "leaf")
	bad("at-empty", "registered_at without a value", with(""), "registered_at")
	bad("at-too-large", "registered at 2^53", with("9007199254740992"), "registered_at")
	bad("at-negative", "registered at −1", with("-1"), "registered_at")
	bad("at-negative-zero", "registered at −0", with("-0"), "leaf")
	bad("at-plus", "registered at +1", with("+1"), "leaf")
	bad("at-leading-zero", "registered at 01", with("01"), "leaf")
	bad("at-fraction", "registered at 1.0", with("1.0"), "registered_at")
	bad("at-exponent", "registered at 1e3", with("1e3"), "registered_at")
	bad("at-text", `registered at "1"`, with(`"1"`), "registered_at")
	bad("at-null", "registered at null", with("null"), "registered_at")
	bad("at-twice", "registered_at twice", `{"envelope":`+envelope+`,"registered_at":1,"registered_at":2}`, "envelope")
	bad("at-space", "a space before registered_at", `{"envelope":`+envelope+`, "registered_at":1}`, "leaf")
	bad("at-space-behind", "a space behind registered_at", with("1 "), "registered_at")
	bad("order", "registered_at before the envelope", `{"registered_at":1,"envelope":`+envelope+`}`, "leaf")
	bad("unknown-member", "a third member", `{"envelope":`+envelope+`,"registered_at":1,"x":2}`, "registered_at")
	bad("trailing-line-break", "a line break behind the leaf", with("1")+"\n", "leaf")
	p := piecesOf(e)
	reordered := `{"payloadType":"` + p.payloadType + `","signatures":[` + p.signature() + `],"payload":"` + p.payload + `"}`
	bad("envelope-order", "the envelope's members in another order", `{"envelope":`+reordered+`,"registered_at":1}`, "leaf")
	bad("envelope-escape", "an escape in the envelope", strings.Replace(with("1"), "application/", `application\/`, 1), "leaf")
	bad("envelope-spaces", "a space in the envelope", strings.Replace(with("1"), `"signatures":[`, `"signatures": [`, 1), "leaf")
	bad("envelope-refused", "an envelope without signature", strings.Replace(with("1"), "["+p.signature()+"]", "[]", 1), "signatures")
	bad("envelope-null", "null for the envelope", `{"envelope":null,"registered_at":1}`, "signatures")
}
