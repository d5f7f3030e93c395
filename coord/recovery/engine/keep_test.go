package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// answered is a case whose second model answers with a payload and citations, and keeps some parts
// of that.
func answered(tb testing.TB, payload string, keep ...string) scenario.Case {
	tb.Helper()
	c := scenario.Case{ID: "order-7", Agent: "desk", Keep: keep, Steps: []scenario.Step{{ID: "write", Effect: entry.EffectNone,
		Attempt: scenario.Attempt{Outcome: scenario.Failed, Failure: &scenario.Failure{Label: scenario.Label{Class: "capacity", Code: "overloaded"}}},
		Attempts: []scenario.Attempt{{Variation: scenario.Variation{Strategy: "fallback_model"}, Outcome: scenario.OK,
			OutputDigest: entry.DigestOf(payload), Payload: payload, Citations: []string{"https://example.com/a"}}}}}}
	line, err := scenario.Encode(c)
	if err != nil {
		tb.Fatal(err)
	}
	c, err = scenario.Decode(line)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestTracesKeepWhatTheCaseAllows: a trace has the digest of an answer, and payload and citations
// only if the case says so. The payload is what the digest is of, and the line is canonical. The
// entry of the case has neither.
func TestTracesKeepWhatTheCaseAllows(t *testing.T) {
	payload := "{\"note\":\"caf\u00e9 \u2028\u007f\",\n \"total\":1.50}"
	for _, keep := range [][]string{nil, {scenario.KeepPayload}, {scenario.KeepCitations}, {scenario.KeepPayload, scenario.KeepCitations}} {
		c := answered(t, payload, keep...)
		setup := NewSetup(recovery.Default(), 0)
		done, err := setup.Recover(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		line, err := done.Trace.Encode()
		if err != nil {
			t.Fatal(err)
		}
		canonical := jsontext.Value(slices.Clone(line))
		if err := canonical.Canonicalize(); err != nil || string(canonical) != string(line) {
			t.Errorf("%v: no canonical form: %v\n%s", keep, err, line)
		}
		again, err := DecodeTrace(line)
		if err != nil {
			t.Fatal(err)
		}
		last := again.Rungs[len(again.Rungs)-1]
		if last.OutputDigest != entry.DigestOf(payload) || (last.Payload == payload) != slices.Contains(keep, scenario.KeepPayload) ||
			(last.Payload == "") == slices.Contains(keep, scenario.KeepPayload) || (len(last.Citations) == 1) != slices.Contains(keep, scenario.KeepCitations) {
			t.Errorf("%v: %+v", keep, last)
		}
		a, err := AttemptOf("run", setup.Policy.Hash(), &done, line)
		if err != nil {
			t.Fatal(err)
		}
		a.Header = entry.Header{V: 1, JTI: entry.AttemptJTI("run", c.ID), Iss: "engine", Aud: "example.com/log", Iat: 1, Wid: "run/run"}
		e, err := entry.New(a)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(e.Payload()); strings.Contains(text, "total") || strings.Contains(text, "example.com/a") {
			t.Errorf("%v: the entry has the content of an answer:\n%s", keep, text)
		}
	}
}

// TestPayloadsAreBounded: what a live attempt gave is kept up to a size, as the case allows it.
func TestPayloadsAreBounded(t *testing.T) {
	for _, c := range []struct {
		size int
		keep []string
		want bool
	}{{scenario.PayloadMax - 2, []string{scenario.KeepPayload}, true}, {scenario.PayloadMax - 1, []string{scenario.KeepPayload}, false}, {10, nil, false}} {
		output := jsontext.Value(`"` + strings.Repeat("x", c.size) + `"`)
		r := recoverer{c: &scenario.Case{Keep: c.keep}}
		a := scenario.Attempt{Outcome: scenario.OK, Output: output, OutputDigest: entry.DigestOf(output)}
		if r.keep(&a); (a.Payload == string(output)) != c.want || !c.want && a.Payload != "" {
			t.Errorf("%d bytes, %v: %d", c.size, c.keep, len(a.Payload))
		}
	}
}

// TestPayloadIsOfItsDigest: a case cannot bring another payload than the digest is of, nor one that
// is too large, nor keep a part that answers do not have.
func TestPayloadIsOfItsDigest(t *testing.T) {
	large := strings.Repeat("a", scenario.PayloadMax+1)
	for _, members := range []string{
		`"outcome":"ok","output_digest":"` + string(entry.DigestOf("b")) + `","payload":"a"`,
		`"outcome":"ok","output_digest":"` + string(entry.DigestOf(large)) + `","payload":"` + large + `"`,
	} {
		_, err := scenario.Decode([]byte(caseWith(members)))
		if wrong := lineError(t, err); wrong.Field != "/steps/0/payload" {
			t.Errorf("%.80s: %v", members, wrong)
		}
	}
	for _, keep := range []string{`["prompt"]`, `["payload","payload"]`} {
		_, err := scenario.Decode([]byte(strings.Replace(minimalCase, `"agent"`, `"keep":`+keep+`,"agent"`, 1)))
		if wrong := lineError(t, err); !strings.HasPrefix(wrong.Field, "/keep/") {
			t.Errorf("%s: %v", keep, wrong)
		}
	}
}
