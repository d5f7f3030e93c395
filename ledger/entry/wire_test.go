package entry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestCutCanonical assembles envelopes from texts full of quotes, brackets and
// separators: what the fast way cuts, the JSON parser reads the same; and the
// fast way takes every canonical envelope.
func TestCutCanonical(t *testing.T) {
	same := cmp.Comparer(func(a, b wire) bool {
		return string(a.payload) == string(b.payload) && string(a.payloadType) == string(b.payloadType) &&
			string(a.keyID) == string(b.keyID) && string(a.sig) == string(b.sig)
	})
	text := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9+/=]{0,8}`), rapid.StringMatching(`["\\,:{}\[\]a]{0,6}`),
		rapid.SampledFrom([]string{beforeType, beforeKeyID, beforeSig, envelopeClose, envelopeOpen}))
	rapid.Check(t, func(t *rapid.T) {
		piece := func(label string) string { return text.Draw(t, label) }
		envelope := envelopeOpen + piece("payload") + beforeType + piece("type") + beforeKeyID + piece("keyid") + beforeSig +
			piece("sig") + envelopeClose
		cut, ok := cutCanonical([]byte(envelope))
		if !ok {
			return
		}
		parsed, err := parseEnvelope([]byte(envelope))
		if err != nil || !cmp.Equal(cut, parsed, same) {
			t.Fatalf("%s\ncut into    %q\nparsed into %q, error %v", envelope, cut, parsed, err)
		}
	})
	e := &Entry{Kind: KindRun, KeyID: "SHA256:x", Sig: []byte{1, 2}, payload: []byte(`{"v":1}`)}
	cut, ok := cutCanonical(e.AppendEnvelope(nil))
	if want := (wire{[]byte("eyJ2IjoxfQ=="), []byte(KindRun.PayloadType()), []byte("SHA256:x"), []byte("AQI=")}); !ok || !cmp.Equal(cut, want, same) {
		t.Errorf("the canonical envelope is cut into %q: %v", cut, ok)
	}
}
