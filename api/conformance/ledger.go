package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/conformance/admission"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"

	"github.com/go-json-experiment/json"
)

// A Ledger is a ledger under test, and the vectors that are submitted to it.
type Ledger struct {
	URL     string        // the base, without a slash at its end
	Vectors fs.FS         // with the layout of testdata/vectors
	Limit   time.Duration // for one answer; above 0
	Client  *http.Client  // nil: a client that follows no redirect

	// Authority is the key of an authority of the ledger's policy. With the key the kit writes
	// entries, too: the ledger must be one for tests. Nil: the kit submits only what is refused.
	Authority *keys.Signer
	Root      verify.Root // pinned; required with Authority
	Graphs    int         // random graphs whose rollback sets are compared, with Authority. 0: 200
}

// maxProblem is the longest problem that a ledger may answer, in bytes.
const maxProblem = 64 << 10

// maxSilent is how many submissions without an answer end the run: the others are not sent.
const maxSilent = 5

// Run submits each envelope and each payload that a vector says is refused before its signature is
// looked at, and compares the problem. The ledger registers none of them. The error is that of the
// vectors or of the context: what the ledger does wrong is in the report.
func (l *Ledger) Run(ctx context.Context) (*Report, error) {
	files, err := readVectors(l.Vectors)
	if err != nil {
		return nil, err
	}
	client := l.Client
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	var results []Result
	silent := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		vector := files[name]
		body, refused, err := submission(name, vector)
		if err != nil {
			return nil, err
		}
		if !refused {
			continue
		}
		about, _ := vector["desc"].(string)
		want, _ := vector["wantErr"].(string)
		result := Result{Case: name, Statements: append(statementsOf(name), "ERR-1"), About: about, Outcome: Passed}
		got := fmt.Sprintf("not sent: the ledger did not answer %d times", silent)
		if silent < maxSilent {
			var answered bool
			got, answered = l.submit(ctx, client, body, want)
			if !answered {
				silent++
			}
		}
		if cause := ctx.Err(); cause != nil {
			return nil, cause
		}
		if got != "" {
			result.Outcome, result.Sent, result.Got = Failed, shortened(string(body)), got
			result.Expected = fmt.Sprintf("status %d and the problem %s", admission.StatusOf(entry.Problem(want)), want)
		}
		results = append(results, result)
	}
	if l.Authority != nil {
		played, err := l.registers(ctx, client)
		if err != nil {
			return nil, err
		}
		results = append(results, played...)
	}
	return newReport("ledger", results), nil
}

// registers plays the cases that register entries.
func (l *Ledger) registers(ctx context.Context, client *http.Client) (results []Result, err error) {
	kit := &admission.Ledger{URL: l.URL, Client: client, Limit: l.Limit, Authority: l.Authority, Root: l.Root, Graphs: l.Graphs}
	list, err := kit.Run(ctx)
	for _, p := range list {
		r := Result{Case: p.Name, Statements: p.Statements, About: p.About, Outcome: Passed}
		if p.Failed {
			r.Outcome, r.Sent, r.Expected, r.Got = Failed, shortened(p.Sent), p.Expected, p.Got
		}
		results = append(results, r)
	}
	return results, err
}

// submission is the envelope that a vector is about, where the vector says that it is refused.
func submission(name string, vector object) (body []byte, refused bool, err error) {
	group, _, _ := strings.Cut(name, "/")
	want, _ := vector["wantErr"].(string)
	if group != "envelope" && group != "payload" || want == "" {
		return nil, false, nil
	}
	data, err := join(vector["input"])
	if err != nil {
		return nil, false, &VectorError{name, err}
	}
	if group == "envelope" {
		return data, true, nil
	}
	kind, _ := vector["kind"].(string)
	keyID := "SHA256:" + strings.Repeat("A", 43)
	sig := strings.Repeat("A", 96) // the longest signature must fit
	body, err = json.Marshal(object{"payload": base64.StdEncoding.EncodeToString(data), "payloadType": entry.Kind(kind).PayloadType(),
		"signatures": []object{{"keyid": keyID, "sig": sig}}}, json.Deterministic(true))
	return body, true, err
}

// submit posts an envelope, and says what is wrong with the answer: nothing, if it is the problem.
// Where the ledger puts the envelope off, the kit sends it again after the time that the ledger
// asks for.
func (l *Ledger) submit(ctx context.Context, client *http.Client, body []byte, want string) (wrong string, answered bool) {
	for range admission.MaxTries - 1 {
		var asked time.Duration
		if wrong, asked, answered = l.submitOnce(ctx, client, body, want); asked == 0 {
			return wrong, answered
		}
		admission.Pause(ctx, asked, l.Limit)
	}
	wrong, _, answered = l.submitOnce(ctx, client, body, want)
	return wrong, answered
}

// submitOnce is submit without a second try. asked is how long the ledger asks the kit to wait; 0:
// it does not.
func (l *Ledger) submitOnce(ctx context.Context, client *http.Client, body []byte, want string) (wrong string, asked time.Duration, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, l.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL+"/v1/entries", bytes.NewReader(body))
	if err != nil {
		return err.Error(), 0, false
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Sprintf("no answer within %s: %v", l.Limit, err), 0, false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxProblem+1))
	if err != nil || len(text) > maxProblem {
		return fmt.Sprintf("status %d, and no whole answer: %d bytes, %v", response.StatusCode, len(text), err), 0, err == nil
	}
	answer := fmt.Sprintf("status %d: %s", response.StatusCode, shortened(string(text)))
	var problem api.Problem
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if later := response.Header.Get("Retry-After"); later != "" && (response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable) {
		seconds, _ := strconv.Atoi(later) // a date is no number, and is asked for again soon
		asked = max(time.Duration(seconds)*time.Second, time.Millisecond)
	}
	switch {
	case err != nil || media != "application/problem+json":
		return "no problem details (RFC 9457): " + answer, asked, true
	case json.Unmarshal(text, &problem) != nil:
		return "garbage: " + answer, asked, true
	case string(problem.Name()) != want || response.StatusCode != admission.StatusOf(entry.Problem(want)) || problem.Status != response.StatusCode:
		return answer, asked, true
	}
	return "", 0, true
}
