package entry_test

import (
	"strings"

	"recoveryledger/ledger/entry"
)

// addPayloadRules covers what holds for payloads of every kind: JSON, numbers,
// depth, UTF-8, null, unknown and critical members.
func (s *vectorSet) addPayloadRules() {
	base := string(payloadOf(s.t, minimal(s.t, entry.KindExecution)))
	// with appends text to the members of a good payload.
	with := func(text string) string { return strings.TrimSuffix(base, "}") + text + "}" }
	good := func(name, desc string, input any) {
		s.payload("rules/"+name, &vector{Desc: desc, Kind: string(entry.KindExecution), Input: input})
	}
	bad := func(name, desc string, input any, field string) {
		s.payload("rules/"+name, &vector{Desc: desc, Kind: string(entry.KindExecution), Input: input, WantErr: string(entry.Malformed), Field: field})
	}

	// JSON (RFC 8259).
	bad("json-empty", "no bytes", "", "payload")
	bad("json-spaces", "white space alone", " \n", "payload")
	bad("json-null", "null", "null", "payload")
	bad("json-array", "a list", "["+base+"]", "payload")
	bad("json-text", "a text", `"{}"`, "payload")
	bad("json-number", "a number", "1", "payload")
	bad("json-cut", "the last bracket is missing", strings.TrimSuffix(base, "}"), "payload")
	bad("json-trailing-comma", "a comma before the last bracket", with(","), "payload")
	bad("json-trailing-bytes", "a second value behind the first", base+"{}", "payload")
	bad("json-comment", "a comment", with(`/* x */`), "payload")
	bad("json-single-quotes", "single quotes", with(`,'x':1`), "payload")
	bad("json-bare-name", "a name without quotes", with(`,x:1`), "payload")
	bad("json-nan", "NaN", with(`,"x":NaN`), "x")
	bad("json-infinity", "Infinity", with(`,"x":-Infinity`), "x")
	bad("json-leading-zero", "a number with a leading zero", with(`,"x":01`), "payload")
	bad("json-plus", "a number with a plus sign", with(`,"x":+1`), "x")
	bad("json-hex", "a hexadecimal number", with(`,"x":0x10`), "payload")
	bad("json-control", "a line break inside a text", with(",\"x\":\"a\nb\""), "x")
	bad("json-escape", "an escape that JSON does not have", with(`,"x":"\x41"`), "x")
	bad("json-bom", "a byte order mark", "\uFEFF"+base, "payload")
	good("json-white-space", "white space between the tokens", " \t\r\n"+strings.ReplaceAll(base, `,"`, " ,\n\t\"")+"\r\n ")
	good("json-escaped-name", "the name of a mandatory member with an escape", strings.Replace(base, `"exec"`, `"\u0065xec"`, 1))
	good("json-order", "members in another order than RFC 8785 has them",
		`{"wid":"wf-2",`+strings.TrimPrefix(strings.Replace(base, `,"wid":"wf-1"`, "", 1), "{"))

	// Duplicate members.
	bad("duplicate", "a member stands twice", with(`,"iss":"agent-2@example.com"`), "iss")
	bad("duplicate-same-value", "a member stands twice with the same value", with(`,"v":1`), "v")
	bad("duplicate-escaped", "a member stands twice, once with an escape", with(`,"\u0069ss":"agent-2@example.com"`), "iss")
	bad("duplicate-inside", "a member of a parent stands twice",
		strings.Replace(base, `"parents":[]`, `"parents":[{"exec":"a#b","dep":"hard","dep":"soft"}]`, 1), "parents[0].dep")
	bad("duplicate-unknown", "an unknown member stands twice", with(`,"x":1,"x":2`), "x")
	bad("duplicate-inside-unknown", "a member inside an unknown one stands twice", with(`,"x":{"y":[{"z":1,"z":1}]}`), "x.y[0].z")
	good("case-of-name", "a name in another case is another, unknown member", with(`,"ISS":"agent-2@example.com"`))
	bad("case-of-mandatory-name", "a mandatory member in another case", strings.Replace(base, `"iss"`, `"Iss"`, 1), "iss")

	// Numbers.
	bad("number-fraction", "a fraction", strings.Replace(base, `"iat":1790000000`, `"iat":1790000000.5`, 1), "iat")
	bad("number-zero-fraction", "an integer written with a fraction", strings.Replace(base, `"iat":1790000000`, `"iat":1790000000.0`, 1), "iat")
	bad("number-exponent", "an integer written with an exponent", strings.Replace(base, `"iat":1790000000`, `"iat":179e7`, 1), "iat")
	bad("number-negative-zero", "negative zero", with(`,"latency_ms":-0`), "latency_ms")
	good("number-largest", "2^53 − 1", with(`,"latency_ms":9007199254740991`))
	bad("number-too-large", "2^53", with(`,"latency_ms":9007199254740992`), "latency_ms")
	bad("number-of-64-bits", "2^63, which no 64-bit integer holds", with(`,"latency_ms":9223372036854775808`), "latency_ms")
	good("number-unknown-largest", "2^53 − 1 and its negative in an unknown member", with(`,"x":[9007199254740991,-9007199254740991]`))
	bad("number-unknown-too-large", "2^53 in an unknown member", with(`,"x":9007199254740992`), "x")
	bad("number-unknown-too-small", "−2^53 in an unknown member", with(`,"x":[-9007199254740992]`), "x[0]")
	bad("number-unknown-fraction", "a fraction deep in an unknown member", with(`,"x":{"y":[0,0.5]}`), "x.y[1]")
	bad("number-unknown-exponent", "an exponent in an unknown member", with(`,"x":1E3`), "x")
	bad("number-unknown-negative-zero", "negative zero in an unknown member", with(`,"x":-0`), "x")
	bad("number-unknown-huge", "a number of 400 digits in an unknown member", parts(strings.TrimSuffix(base, "}")+`,"x":`, repeat("9", 400), "}"), "x")
	bad("number-as-text", "a number written as text", strings.Replace(base, `"iat":1790000000`, `"iat":"1790000000"`, 1), "iat")
	bad("version-two", "version 2", strings.Replace(base, `"v":1`, `"v":2`, 1), "v")
	bad("iat-zero", "iat is 0", strings.Replace(base, `"iat":1790000000`, `"iat":0`, 1), "iat")

	// Depth.
	good("depth-16", "16 levels, the payload the first", parts(strings.TrimSuffix(base, "}")+`,"x":`, repeat("[", 15), repeat("]", 15), "}"))
	bad("depth-17", "17 levels", parts(strings.TrimSuffix(base, "}")+`,"x":`, repeat("[", 16), repeat("]", 16), "}"), "payload")
	bad("depth-17-objects", "17 levels of objects", parts(strings.TrimSuffix(base, "}")+`,"x":`, repeat(`{"":`, 15), "{}", repeat("}", 15), "}"), "payload")
	bad("depth-15000", "15,000 levels", parts(strings.TrimSuffix(base, "}")+`,"x":`, repeat("[", 15000), repeat("]", 15000), "}"),
		"x"+strings.Repeat("[0]", entry.MaxDepth-1))
	good("members-64", "64 members", with(unknownMembers(64-strings.Count(base, `":`))))
	bad("members-65", "65 members", with(unknownMembers(65-strings.Count(base, `":`))), "payload")

	// Text.
	bad("utf8-invalid", "a byte that no UTF-8 has", parts(strings.TrimSuffix(base, "}")+`,"x":"`, rawBytes("\xff"), `"}`), "x")
	bad("utf8-overlong", "an overlong slash", parts(strings.TrimSuffix(base, "}")+`,"x":"`, rawBytes("\xc0\xaf"), `"}`), "x")
	bad("utf8-surrogate", "a surrogate in UTF-8", parts(strings.TrimSuffix(base, "}")+`,"x":"`, rawBytes("\xed\xa0\x80"), `"}`), "x")
	bad("utf8-cut", "a text that ends inside a character", parts(strings.TrimSuffix(base, "}")+`,"x":"`, rawBytes("\xe2\x82"), `"}`), "x")
	bad("utf8-name", "a name that is not UTF-8", parts(strings.TrimSuffix(base, "}")+`,"`, rawBytes("\xff"), `":1}`), "payload")
	bad("surrogate-lone", "a lone surrogate as an escape", with(`,"x":"\ud800"`), "x")
	bad("surrogate-order", "a low surrogate before a high one", with(`,"x":"\udc00\ud800"`), "x")
	good("surrogate-pair", "a pair of surrogates as escapes", with(`,"x":"\ud834\udd1e"`))
	good("text-nul", "U+0000 as an escape", with(`,"x":"\u0000"`))
	good("text-unicode", "text beyond ASCII, kept as it is", with(`,"x":"Grüße 𝄞 \u2028"`))
	bad("jti-upper-case", "a UUID in upper case", strings.Replace(base, "0190b9d4", "0190B9D4", 1), "jti")
	jti := header(entry.KindExecution).JTI
	bad("jti-braces", "a UUID in braces", strings.Replace(base, jti, "{"+jti+"}", 1), "jti")
	bad("jti-without-dashes", "a UUID without dashes", strings.Replace(base, jti, strings.ReplaceAll(jti, "-", ""), 1), "jti")
	bad("iss-umlaut", "a principal with an umlaut", strings.Replace(base, "agent-1@", "ägent-1@", 1), "iss")
	good("aud-of-128", "an origin of 128 bytes", strings.Replace(base, "example.com/log", strings.Repeat("a", 128), 1))
	bad("aud-of-129", "an origin of 129 bytes", strings.Replace(base, "example.com/log", strings.Repeat("a", 129), 1), "aud")
	bad("aud-of-65-umlauts", "an origin of 65 characters and 130 bytes", strings.Replace(base, "example.com/log", strings.Repeat("ä", 65), 1), "aud")

	// Null, unknown and critical members.
	good("unknown", "unknown members are kept, null too", with(`,"x":null,"x_list":[null,true,false,{"y":null}],"":0`))
	bad("null-mandatory", "null for a mandatory member", strings.Replace(base, `"exec":"exec-1"`, `"exec":null`, 1), "exec")
	bad("null-optional", "null for an optional member", with(`,"task":null`), "task")
	bad("null-crit", "null for crit", with(`,"crit":null`), "crit")
	good("crit-empty", "no critical member", with(`,"crit":[]`))
	good("crit-known", "critical members that are understood", with(`,"crit":["exec","wid","crit","cost_micro_usd"]`))
	bad("crit-unknown", "a critical member that nobody understands", with(`,"crit":["x"],"x":1`), "crit")
	bad("crit-of-another-kind", "a critical member that only another kind has", with(`,"crit":["subject"]`), "crit")
	bad("crit-text", "crit is a text", with(`,"crit":"exec"`), "crit")
	bad("crit-null-inside", "null inside crit", with(`,"crit":[null]`), "crit[0]")
	s.payloadSizes(base)
}

// payloadSizes stands at the limit of the envelope and one past it, as far as
// padding allows; the room of the largest signature is always kept.
func (s *vectorSet) payloadSizes(base string) {
	least, err := entry.NewRaw(entry.KindExecution, []byte(base))
	must(s.t, err)
	const encodedSig, encodedKeyID = 96, entry.MaxKeyID
	room := (entry.MaxEnvelope - (len(least.AppendEnvelope(nil)) - (len(base)+2)/3*4) - encodedSig - encodedKeyID) / 4 * 3
	fill := room - len(base) - len(`,"x":""`)
	sized := func(n int) any { return parts(strings.TrimSuffix(base, "}")+`,"x":"`, repeat("x", n), `"}`) }
	kind := string(entry.KindExecution)
	s.payload("rules/size-largest", &vector{Desc: "the largest payload for which every signature fits", Kind: kind, Input: sized(fill)})
	s.payload("rules/size-too-large", &vector{Desc: "one byte more", Kind: kind, Input: sized(fill + 1), WantErr: string(entry.TooLarge)})
}

// unknownMembers returns n members that no kind has.
func unknownMembers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"x` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `":0`)
	}
	return b.String()
}
