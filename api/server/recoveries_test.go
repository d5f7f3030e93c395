package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

const oneCase = `{"v":1,"id":"one","agent":"a","steps":[{"id":"s","effect":"none","outcome":"failed","failure":{"raw":{"http_status":529}},"attempts":[{"strategy":"fallback_model","outcome":"ok"}]}]}`

func (n *node) recover(path, mediaType, body string) *answer {
	n.t.Helper()
	return n.do(n.request(http.MethodPost, "/v1/recoveries"+path, mediaType, []byte(body)))
}

// recovered decodes the answer about one case.
func (n *node) recovered(a *answer) api.Recovery {
	n.t.Helper()
	var r api.Recovery
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != api.MediaJSON {
		n.t.Fatalf("%s %s: %s", a.Status, a.Header.Get("Content-Type"), a.body)
	}
	must(n.t, json.Unmarshal(a.body, &r, json.RejectUnknownMembers(true)))
	return r
}

// recoveryLines decodes the answer to a batch.
func recoveryLines(tb testing.TB, a *answer) []api.RecoveryLine {
	tb.Helper()
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != api.MediaNDJSON {
		tb.Fatalf("%s %s: %s", a.Status, a.Header.Get("Content-Type"), a.body)
	}
	var all []api.RecoveryLine
	for line := range bytes.Lines(a.body) {
		var l api.RecoveryLine
		must(tb, json.Unmarshal(line, &l, json.RejectUnknownMembers(true)))
		all = append(all, l)
	}
	return all
}

// One case is decided by the rules of the policy in force, as arl recover
// decides: by the rules built in where it has none, and by its own from its
// entry on.
func TestRecoverOneCase(t *testing.T) {
	n := start(t, nil)
	c, err := scenario.Decode([]byte(oneCase))
	must(t, err)
	batch := engine.Batch{Config: engine.Config{Policy: recovery.Default()}, Neighbours: engine.Neighbours(recovery.Default())}
	done, err := batch.Line(t.Context(), []byte(oneCase))
	must(t, err)
	r := n.recovered(n.recover("", api.MediaJSON, oneCase))
	if string(r.Trace) != string(done.Encoded) || r.Rules.Digest != recovery.Default().Hash() || r.Rules.Policy.Index != 0 {
		t.Errorf("answer %+v\n%s\nwant\n%s", r.Rules, r.Trace, done.Encoded)
	}
	trace, err := engine.DecodeTrace(r.Trace)
	must(t, err)
	if trace.Case != c.ID || trace.Status != engine.AutoRecovered || !trace.Fallback {
		t.Errorf("trace %+v", trace)
	}
	again := n.recovered(n.recover("", api.MediaJSON, oneCase))
	if string(again.Trace) != string(r.Trace) {
		t.Errorf("the same case again:\n%s\n%s", again.Trace, r.Trace)
	}
	own := n.follower()
	own.Recovery = []byte(`{"limits":{"attempts":3,"cost_micro_usd":1,"tokens":1,"deadline_ms":1},"rules":[` +
		`{"id":"all","when":"true","ladder":[{"strategy":"escalate"}]}],"thresholds":{"cases_min":1,"cost_per_case_max_micro_usd":1,` +
		`"latency_p95_max_ms":1,"recovery_rate_min_ppm":1,"tolerance_ppm":0}}`)
	n.register(sign(t, n.authority, own))
	r = n.recovered(n.recover("", api.MediaJSON, oneCase))
	if !strings.Contains(string(r.Trace), `"status":"escalated"`) || r.Rules.Policy.Index != n.log.Head().Size-1 {
		t.Errorf("under the new policy: %+v %s", r.Rules, r.Trace)
	}
}

// What cannot be used is a problem that names the member.
func TestRecoverRefusals(t *testing.T) {
	n := start(t, nil)
	large := func(size int) string {
		return strings.Replace(oneCase, `"v":1`, `"v":1`+strings.Repeat(" ", size-len(oneCase)), 1)
	}
	for _, c := range []struct {
		path, mediaType, body string
		want                  entry.Problem
		status                int
		field                 string
	}{
		{"", api.MediaJSON, strings.Replace(oneCase, "fallback_model", "FALLBACK", 1), entry.Malformed, 400, "/steps/0/attempts/0/strategy"},
		{"", api.MediaJSON, "", entry.Malformed, 400, ""},
		{"", api.MediaJSON, large(api.MaxCase + 1), entry.TooLarge, 413, ""},
		{"?x=1", api.MediaJSON, oneCase, entry.Malformed, 400, "x"},
		{"/batch", api.MediaNDJSON, "", entry.Malformed, 400, ""},
		{"/batch?x=1", api.MediaNDJSON, "", entry.Malformed, 400, "x"},
		{"", api.MediaNDJSON, oneCase, "", 415, ""},
		{"/batch", api.MediaJSON, oneCase, "", 415, ""},
	} {
		p := n.problem(n.recover(c.path, c.mediaType, c.body), c.want, c.status)
		if p.Field != c.field {
			t.Errorf("%s %.40s: field %q, want %q", c.path, c.body, p.Field, c.field)
		}
	}
	n.recovered(n.recover("", api.MediaJSON, large(api.MaxCase)))
	request := n.request(http.MethodPost, "/v1/recoveries", api.MediaJSON, []byte(oneCase))
	request.Header.Set("Content-Encoding", "gzip")
	n.problem(n.do(request), "", 415)
	n.problem(startEmpty(t, nil).recover("", api.MediaJSON, oneCase), entry.NotReady, 503)
}

// A batch is the run of arl recover on the same scenario: the same traces in
// the same order, the same counts, the same root.
func TestRecoverBatch(t *testing.T) {
	scenario, err := os.ReadFile("../../testdata/tool_chain_failures.ndjson")
	must(t, err)
	policy := recovery.Default()
	batch := engine.Batch{Config: engine.Config{Policy: policy}, Workers: 2, Neighbours: engine.Neighbours(policy)}
	tally, err := engine.NewTally(policy)
	must(t, err)
	var want []string
	for done, err := range batch.Run(t.Context(), "scenario", bytes.NewReader(scenario)) {
		must(t, err)
		must(t, tally.Add(&done.Trace, done.Leaf))
		want = append(want, string(done.Encoded))
	}
	report, err := tally.Report(engine.Subject{Policy: policy, Runtime: engine.ModeRecorded})
	must(t, err)
	n := start(t, nil)
	lines := recoveryLines(t, n.recover("/batch", api.MediaNDJSON, string(scenario)))
	if len(lines) != len(want)+1 {
		t.Fatalf("%d lines for %d cases", len(lines), len(want))
	}
	for i, trace := range want {
		if string(lines[i].Trace) != trace || lines[i].Line != uint64(i+1) {
			t.Fatalf("line %d: %+v, want %s", i+1, lines[i], trace)
		}
	}
	end := lines[len(want)].End
	if end == nil || end.RunRoot != report.RunRoot || end.Partial != "" || end.Refused != 0 || end.Rules.Digest != policy.Hash() ||
		[4]uint64{end.Cases, end.AutoRecovered, end.Escalated, end.NoFailure} != [4]uint64{100, 71, 23, 6} {
		t.Errorf("end %+v, want root %s", end, report.RunRoot)
	}
}

// Bad lines are answered in their place, and the others do not depend on them.
func TestRecoverBatchPassesOverBadLines(t *testing.T) {
	n := start(t, nil)
	two := strings.Replace(oneCase, `"one"`, `"two"`, 1)
	fits := strings.Replace(two, `"v":1`, `"v":1`+strings.Repeat(" ", api.MaxCase-len(two)), 1)
	body := strings.Join([]string{oneCase, "{", "", oneCase, " " + fits, strings.Repeat("x", 3*api.MaxCase), fits + "\r"}, "\n")
	lines := recoveryLines(t, n.recover("/batch", api.MediaNDJSON, body))
	got := ""
	for _, l := range lines {
		switch {
		case l.Problem != nil:
			got += fmt.Sprintf("%d %s %s\n", l.Line, l.Problem.Name(), l.Problem.Field)
		case l.End != nil:
			got += fmt.Sprintf("end %d %d", l.End.Cases, l.End.Refused)
		default:
			got += fmt.Sprintf("%d trace\n", l.Line)
		}
	}
	want := "1 trace\n2 malformed \n3 malformed \n4 id-conflict /id\n5 too-large \n6 too-large \n7 trace\nend 2 5"
	if got != want {
		t.Errorf("answer\n%s\nwant\n%s", got, want)
	}
}

// Each line is answered before the next one is sent.
func TestRecoverBatchStreams(t *testing.T) {
	n := start(t, nil)
	in, send := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/v1/recoveries/batch", in)
	must(t, err)
	request.Header.Set("Content-Type", api.MediaNDJSON)
	first := make(chan error, 1)
	line := func(i int) string { return strings.Replace(oneCase, `"one"`, fmt.Sprintf(`"case-%d"`, i), 1) + "\n" }
	go func() {
		_, err := io.WriteString(send, line(0))
		first <- err
	}()
	response, err := http.DefaultClient.Do(request) // returns with the answer to the first line
	must(t, err)
	defer response.Body.Close()
	must(t, <-first)
	lines := bufio.NewScanner(response.Body)
	for i := range 3 {
		if i > 0 {
			_, err := io.WriteString(send, line(i))
			must(t, err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), fmt.Sprintf(`"line":%d,`, i+1)) {
			t.Fatalf("after line %d: %q, %v", i+1, lines.Text(), lines.Err())
		}
	}
	must(t, send.Close())
	if !lines.Scan() || !strings.Contains(lines.Text(), `"cases":3`) || lines.Scan() {
		t.Errorf("end %q", lines.Text())
	}
}

// A batch over its limit ends where it is reached, and says so.
func TestRecoverBatchLimit(t *testing.T) {
	budget.Unraced(t, "one client sends lines up to a limit; TestDeadlinesAreForClients has the same goroutines")
	n := start(t, func(c *server.Config) { c.Rate = -1 })
	short := strings.Repeat("1\n", api.MaxRecoveryLines)
	for more, want := range map[string]string{"": "", "1\n": "too-large"} {
		lines := recoveryLines(t, n.recover("/batch", api.MediaNDJSON, short+more))
		last := lines[len(lines)-1].End
		if last == nil || last.Partial != want || last.Refused != uint64(len(lines)-1) || len(lines) < api.MaxRecoveryLines+1 {
			t.Errorf("%d lines more: end %+v after %d lines", len(more)/2, last, len(lines))
		}
	}
}

// A server that is about to end takes no further line of a batch.
func TestRecoverBatchEndsWithTheServer(t *testing.T) {
	n := start(t, nil)
	address, stop := n.serve(func(*server.Config) {})
	in, send := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/recoveries/batch", in)
	must(t, err)
	request.Header.Set("Content-Type", api.MediaNDJSON)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(send, oneCase+"\n")
		sent <- err
	}()
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	must(t, <-sent)
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"line":1,`) {
		t.Fatalf("first line %q", lines.Text())
	}
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	second := strings.Replace(oneCase, `"one"`, `"two"`, 1)
	for n.listening(address) { // it drains before it closes the listener
	}
	_, _ = io.WriteString(send, second+"\n") // the server may have stopped reading
	_ = send.Close()
	var last string
	for lines.Scan() {
		last = lines.Text()
	}
	if !strings.Contains(last, `"partial":"interrupted"`) {
		t.Errorf("last line %q", last)
	}
	<-stopped
}

// listening reports whether new connections are still taken, however slow the machine is.
func (n *node) listening(address string) bool {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	must(n.t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return true
}

// recoveries meets what recoveries answer; large is one past the limit.
func (d *document) recoveries(n *node) {
	d.t.Helper()
	large := strings.Repeat("x", api.MaxCase+1)
	for _, c := range []struct{ path, mediaType, body string }{
		{"", api.MediaJSON, oneCase}, {"", api.MediaJSON, "{}"}, {"", api.MediaJSON, large}, {"", "text/plain", ""},
		{"/batch", api.MediaNDJSON, oneCase + "\n{}\n"}, {"/batch", api.MediaNDJSON, ""}, {"/batch", "text/plain", ""},
	} {
		d.check("/v1/recoveries"+c.path, n.recover(c.path, c.mediaType, c.body))
	}
	empty := startEmpty(d.t, nil)
	d.check("/v1/recoveries", empty.recover("", api.MediaJSON, oneCase))
	d.check("/v1/recoveries/batch", empty.recover("/batch", api.MediaNDJSON, oneCase))
	for _, c := range [][2]string{{api.MediaJSON, oneQuestion}, {api.MediaJSON, "{}"}, {api.MediaJSON, large}, {"text/plain", ""}} {
		d.check(api.PathDecide, n.decide(c[0], c[1]))
	}
	d.check(api.PathDecide, empty.decide(api.MediaJSON, oneQuestion))
}

// Whatever a batch holds, each of its lines is answered, and the answer has an
// end.
func FuzzRecoverBatch(f *testing.F) {
	n := start(f, func(c *server.Config) { c.Rate = -1 })
	f.Add([]byte(oneCase + "\n{}\r\n\n"))
	f.Add([]byte("\xff\n"))
	f.Add([]byte(oneCase))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			return // nothing was sent
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/v1/recoveries/batch", bytes.NewReader(body))
		must(t, err)
		request.Header.Set("Content-Type", api.MediaNDJSON)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		lines := recoveryLines(t, &answer{response, text})
		want := bytes.Count(body, []byte("\n")) + 1
		if bytes.HasSuffix(body, []byte("\n")) {
			want--
		}
		end := lines[len(lines)-1].End
		if len(lines) != want+1 || end == nil || end.Cases+end.Refused != uint64(want) {
			t.Fatalf("%d lines for %d, end %+v", len(lines), want, end)
		}
	})
}
