package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/ask"
	"recoveryledger/ledger/entry"
)

const oneQuestion = `{"history":{"case":"order-7","step":"charge","effect":"compensable","idempotent":true},"error":{"http_status":503},"elapsed_ms":1500}`

func (n *node) decide(mediaType, body string) *answer {
	n.t.Helper()
	return n.do(n.request(http.MethodPost, api.PathDecide, mediaType, []byte(body)))
}

// decided decodes the answer to a question.
func (n *node) decided(a *answer) api.Decided {
	n.t.Helper()
	var d api.Decided
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != api.MediaJSON {
		n.t.Fatalf("%s %s: %s", a.Status, a.Header.Get("Content-Type"), a.body)
	}
	must(n.t, json.Unmarshal(a.body, &d, json.RejectUnknownMembers(true)))
	return d
}

// A question is answered by the rules of the policy in force, and as package ask answers it: by the
// built-in rules where the policy has none, and by a later policy's own from its entry on.
func TestDecide(t *testing.T) {
	n := start(t, nil)
	q, err := ask.Decode([]byte(oneQuestion))
	must(t, err)
	want, err := json.Marshal(q.Decide(recovery.Default()))
	must(t, err)
	for range 2 {
		got := n.decided(n.decide(api.MediaJSON, oneQuestion))
		if string(got.Decision) != string(want) || got.Rules.Digest != recovery.Default().Hash() || got.Rules.Policy.Index != 0 {
			t.Fatalf("%+v\n%s\nwant\n%s", got.Rules, got.Decision, want)
		}
	}
	own := n.follower()
	own.Recovery = []byte(`{"limits":{"attempts":3,"cost_micro_usd":1,"tokens":1,"deadline_ms":1},"rules":[` +
		`{"id":"all","when":"true","ladder":[{"strategy":"escalate"}]}],"thresholds":{"cases_min":1,"cost_per_case_max_micro_usd":1,` +
		`"latency_p95_max_ms":1,"recovery_rate_min_ppm":1,"tolerance_ppm":0}}`)
	n.register(sign(t, n.authority, own))
	got := n.decided(n.decide(api.MediaJSON, oneQuestion))
	if !strings.Contains(string(got.Decision), `"strategy":"escalate"`) || got.Rules.Policy.Index != n.log.Head().Size-1 {
		t.Errorf("under the new policy: %+v %s", got.Rules, got.Decision)
	}
}

// TestDecideByRulesThatDoNotCompile: a log of old may have such a policy in force. The built-in
// rules decide then, as they do for the coordinator.
func TestDecideByRulesThatDoNotCompile(t *testing.T) {
	n := &node{t: t, old: true}
	n.metrics.Store(metrics.New())
	n.open(vfs.NewMem(), "db", nil)
	p := n.policy()
	p.Recovery = []byte(`{"rules":[]}`)
	n.register(sign(t, n.authority, p))
	if got := n.decided(n.decide(api.MediaJSON, oneQuestion)); got.Rules.Digest != recovery.Default().Hash() {
		t.Errorf("%+v %s", got.Rules, got.Decision)
	}
}

// What is no question is a problem that names the member.
func TestDecideRefusals(t *testing.T) {
	n := start(t, nil)
	long := func(size int) string {
		return strings.Replace(oneQuestion, "{", "{"+strings.Repeat(" ", size-len(oneQuestion)), 1)
	}
	for _, c := range []struct {
		mediaType, body string
		want            entry.Problem
		status          int
		field           string
	}{
		{api.MediaJSON, strings.Replace(oneQuestion, "compensable", "some", 1), entry.Malformed, 400, "/history/effect"},
		{api.MediaJSON, strings.Replace(oneQuestion, `"case"`, `"kase"`, 1), entry.Malformed, 400, "/history/kase"},
		{api.MediaJSON, strings.Replace(oneQuestion, "503", "5030", 1), entry.Malformed, 400, "/error/http_status"},
		{api.MediaJSON, oneQuestion[:40], entry.Malformed, 400, "/history/step"},
		{api.MediaJSON, "", entry.Malformed, 400, ""},
		{api.MediaJSON, long(api.MaxQuestion + 1), entry.TooLarge, 413, ""},
		{api.MediaNDJSON, oneQuestion, "", 415, ""},
	} {
		if p := n.problem(n.decide(c.mediaType, c.body), c.want, c.status); p.Field != c.field {
			t.Errorf("%.60s: field %q, want %q", c.body, p.Field, c.field)
		}
	}
	n.decided(n.decide(api.MediaJSON, long(api.MaxQuestion)))
	n.problem(startEmpty(t, nil).decide(api.MediaJSON, oneQuestion), entry.NotReady, 503)
}

// BenchmarkDecide asks over one connection, about a case with eight rungs, and reports the 99th
// percentile of the time from the first byte of the request to the last of the answer.
func BenchmarkDecide(b *testing.B) {
	n := newNode(b, vfs.NewMem(), "db", func(c *server.Config) { c.Rate = -1 })
	n.found()
	q, err := ask.Decode([]byte(oneQuestion))
	must(b, err)
	for range 8 {
		d := q.Decide(recovery.Default())
		q.History.Rungs = append(q.History.Rungs, recovery.Rung{Step: d.Rung.Step, Class: d.Rung.Class, Code: d.Rung.Code, Rule: d.Rung.Rule,
			Strategy: d.Rung.Strategy, Variant: d.Rung.Variant, Scope: d.Rung.Scope, Model: d.Rung.Model, Result: recovery.ResultFailed})
	}
	body, err := json.Marshal(q)
	must(b, err)
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", api.PathDecide, len(body), body)
	connection, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	must(b, err)
	defer connection.Close()
	in := bufio.NewReader(connection)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		_, err := connection.Write(request)
		must(b, err)
		response, err := http.ReadResponse(in, nil)
		must(b, err)
		answer, err := io.ReadAll(response.Body)
		must(b, err)
		must(b, response.Body.Close())
		took = append(took, time.Since(began))
		if response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"decision"`)) {
			b.Fatalf("%s: %s", response.Status, answer)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
