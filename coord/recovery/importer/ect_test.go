package importer

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// ectKey is the key of an issuer of tokens.
func ectKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// ectToken is a token with claims, written as JSON, signed by the key of a name.
func ectToken(key, typ, claims string) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: ectKey(key), KeyID: key}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		panic(err) // the key is one
	}
	signed, err := signer.Sign([]byte(claims))
	if err != nil {
		panic(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

func sha256Claim(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ectSample is two workflows, whose tokens stand between each other: one in an older form, and a
// token before the one that it depends on.
func ectSample() string {
	return strings.Join([]string{
		ectToken("planner", "exec+jwt", `{"iss":"spiffe://example.org/planner","aud":"spiffe://example.org/booker","iat":1800000000,"exp":1800000600,"jti":"t1","wid":"trip","exec_act":"plan","pred":[],"out_hash":"`+sha256Claim("itinerary")+`"}`),
		ectToken("other", "wimse-exec+jwt", `{"iss":"other","jti":"o1","exec_act":"read","par":[]}`),
		ectToken("writer", "exec+jwt", `{"iss":"spiffe://example.org/writer","jti":"t3","wid":"trip","exec_act":"mail","pred":["t2","t1","t2"]}`),
		"",
		ectToken("booker", "exec+jwt", `{"iss":"spiffe://example.org/booker","jti":"t2","wid":"trip","exec_act":"book `+
			`hotel","pred":["t1"],"inp_hash":"`+sha256Claim("itinerary")+`","ext":{"org.example.price":3}}`),
	}, "\n") + "\n"
}

// TestImportECT: a step is a token, a case a workflow, and the order is that of the predecessors.
func TestImportECT(t *testing.T) {
	cases := importText(t, ECT, ectSample())
	checkSummary(t, cases,
		`trip | ect/spiffe://example.org/planner | ect/trip | ect | not_observed
t1 | ect/spiffe://example.org/planner | plan | undeclared | <> | ok
t2 | ect/spiffe://example.org/booker | book hotel | undeclared | <t1> | ok
t3 | ect/spiffe://example.org/writer | mail | undeclared | <t1 t2> | ok`,
		`file | ect/other | ect/file | ect | not_observed
o1 | ect/other | read | undeclared | <> | ok`)
	if steps := cases[0].Steps; steps[0].OutputDigest != entry.DigestOf("itinerary") || steps[1].InputDigest != steps[0].OutputDigest {
		t.Errorf("digests %s and %s", cases[0].Steps[0].OutputDigest, cases[0].Steps[1].InputDigest)
	}
}

// keySet is a JSON Web Key Set of the keys of names.
func keySet(t *testing.T, names ...string) *TokenKeys {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, name := range names {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: ectKey(name).Public(), KeyID: name})
	}
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseTokenKeys(data)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestECTSignatures: with keys, a token counts only if one of them signed it.
func TestECTSignatures(t *testing.T) {
	read := func(text string, keys *TokenKeys) (steps int, wrong []string) {
		for c, err := range ImportTokens("file", strings.NewReader(text), keys, new(Counts)) {
			if err != nil {
				wrong = append(wrong, checkError(t, err).Error())
			}
			steps += len(c.Steps)
		}
		return steps, wrong
	}
	good := ectToken("a", "exec+jwt", `{"iss":"a","jti":"1","wid":"w","exec_act":"x"}`)
	if steps, wrong := read(good, keySet(t, "b", "a")); steps != 1 || len(wrong) > 0 {
		t.Errorf("signed by a key of the set: %d steps, %v", steps, wrong)
	}
	parts := strings.Split(good, ".")
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"b","jti":"1","wid":"w","exec_act":"x"}`))
	for name, text := range map[string]string{"another key": ectToken("c", "exec+jwt", `{"iss":"a","jti":"1","wid":"w","exec_act":"x"}`), "changed": strings.Join(parts, ".")} {
		if steps, wrong := read(text, keySet(t, "a", "b")); steps != 0 || len(wrong) != 1 || !strings.Contains(wrong[0], "is not signed by the key") {
			t.Errorf("%s: %d steps, %v", name, steps, wrong)
		}
	}
	for name, text := range map[string]string{"no keys": `{"keys":[]}`, "no JSON": `x`, "a secret": `{"keys":[{"kty":"oct","kid":"k","k":"AAAA"}]}`,
		"a private key": `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}]}`} {
		if _, err := ParseTokenKeys([]byte(text)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestBadECT: each mistake is one error that names the token.
func TestBadECT(t *testing.T) {
	claims := func(text string) string { return ectToken("a", "exec+jwt", text) }
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"exec+jwt"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{}`)) + "."
	for name, test := range map[string]struct{ text, want string }{
		"no token":           {"x", "is not a token"},
		"unsigned":           {none, "is not a token"},
		"another type":       {ectToken("a", "JWT", `{}`), `has the type "JWT"`},
		"no claims":          {claims(`{}`), "field /iss: is missing"},
		"no object":          {claims(`[]`), "holds an array"},
		"no id":              {claims(`{"iss":"a","exec_act":"x"}`), "field /jti: is missing"},
		"a bad hash":         {claims(`{"iss":"a","jti":"1","exec_act":"x","inp_hash":"sha-256:aa"}`), "field /inp_hash: holds"},
		"a long action":      {claims(`{"iss":"a","jti":"1","exec_act":"` + strings.Repeat("x", scenario.ToolMax+1) + `"}`), "over the limit"},
		"twice":              {claims(`{"iss":"a","jti":"1","exec_act":"x"}`) + "\n" + claims(`{"iss":"b","jti":"1","exec_act":"x"}`), "already came with record 1"},
		"a missing token":    {claims(`{"iss":"a","jti":"1","exec_act":"x","pred":["0"]}`), `names "0", whose token the file does not hold`},
		"of another one":     {claims(`{"iss":"a","jti":"1","wid":"v","exec_act":"x"}`) + "\n" + claims(`{"iss":"a","jti":"2","wid":"w","exec_act":"x","pred":["1"]}`), "record 1 has in another workflow"},
		"a circle":           {claims(`{"iss":"a","jti":"1","exec_act":"x","pred":["2"]}`) + "\n" + claims(`{"iss":"a","jti":"2","exec_act":"x","pred":["1"]}`), "back to itself"},
		"nothing":            {"\n \n", "holds no token"},
		"a very long line":   {strings.Repeat("x", tokenMax+1), "is larger than"},
		"the longest, which": {strings.Repeat("x", tokenMax), "is not a token"},
	} {
		var found []string
		for _, err := range Import(ECT, "file", strings.NewReader(test.text), new(Counts)) {
			if err != nil {
				found = append(found, checkError(t, err).Error())
			}
		}
		if len(found) != 1 || !strings.Contains(found[0], test.want) {
			t.Errorf("%s: %q, want %q", name, found, test.want)
		}
	}
}

func FuzzImportECT(f *testing.F) {
	fuzzImport(f, ECT, ectToken("a", "exec+jwt", `{"iss":"é","jti":"","exec_act":"x"}`), ectToken("a", "exec+jwt", `{"iss":"é","jti":" ","exec_act":"x","pred":[" "]}`))
}
