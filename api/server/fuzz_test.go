package server

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// goodEnvelope is an envelope that is well-formed, and signed by nobody.
const goodEnvelope = `{"payload":"eyJ2IjoxLCJqdGkiOiIwMTkwYjlkNC03ZDNlLTdjYzAtOWYxMS02YzBkOGU2YTViMjEiLCJpc3MiOiJhIiwiYXVkIjoibyIsI` +
	`mlhdCI6MSwid2lkIjoidyIsImV4ZWMiOiJ4IiwicGFyZW50cyI6W10sImVmZmVjdCI6Im5vbmUiLCJwcm9ncmVzcyI6InBsYW5uZWQifQ==",` +
	`"payloadType":"application/vnd.agent-recovery.execution+json",` +
	`"signatures":[{"keyid":"SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","sig":"AAAA"}]}`

// FuzzBatch compares the reader of batches with a slow one that splits lines
// and decodes each: the same prefix, the same problem.
func FuzzBatch(f *testing.F) {
	const good = goodEnvelope
	if _, err := entry.Decode([]byte(good)); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", good, good + "\n", good + "\r\n" + good, good + "\n\n" + good, good + "\n{}\n" + good, "\n", good + "\x00",
		good + "\n" + strings.Repeat(" ", entry.MaxEnvelope+2), strings.Repeat(" ", entry.MaxEnvelope-len(good)) + good} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		entries, refused, err := readBatch(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("a body that arrived: %v", err)
		}
		want, problem := readBatchSlowly(body)
		if len(entries) != len(want) || (refused == nil) != (problem == "") || refused != nil && refused.Problem != problem {
			t.Fatalf("%d entries and %v, want %d and %q", len(entries), refused, len(want), problem)
		}
		for i := range want {
			if !bytes.Equal(entries[i].AppendEnvelope(nil), want[i].AppendEnvelope(nil)) {
				t.Fatalf("entry %d is another", i)
			}
		}
	})
}

func readBatchSlowly(body []byte) (entries []*entry.Entry, problem entry.Problem) {
	if len(body) == 0 {
		return nil, entry.Malformed
	}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(body, []byte("\n")), []byte("\n")) {
		if len(line) > entry.MaxEnvelope+1 {
			return entries, entry.TooLarge
		}
		e, err := entry.Decode(line)
		if err != nil {
			refusal, _ := errors.AsType[*entry.Refusal](err)
			return entries, refusal.Problem
		}
		entries = append(entries, e)
	}
	return entries, ""
}

// FuzzEvidence compares the reader of the evidence file with a slow one: what
// counts are the envelopes on whole lines, and nothing is cut off but what comes
// behind them.
func FuzzEvidence(f *testing.F) {
	const good = `{"detail":"d","envelope":` + goodEnvelope + `}` + "\n"
	for _, seed := range []string{"", "\n", good, good + good, good + good[:100], "{}\n" + good, good + "\x00", "\n\n" + good[:len(good)-1],
		`{"envelope":{},"envelope":` + goodEnvelope + "}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		e := newEvidence(nil)
		if err := e.load(bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		end := bytes.LastIndexByte(content, '\n') + 1
		if e.size != int64(end) {
			t.Fatalf("whole lines end at %d, not at %d", end, e.size)
		}
		objects, distinct := 0, map[string]bool{}
		for line := range bytes.Lines(content[:end]) {
			var record map[string]jsontext.Value
			if json.Unmarshal(line, &record) != nil {
				continue
			}
			if object, err := entry.Decode(record["envelope"]); err == nil {
				objects++
				distinct[string(object.PAE())] = true
			}
		}
		counted := 0
		for _, n := range e.from {
			counted += n
		}
		if counted != objects || len(e.kept) != len(distinct) {
			t.Fatalf("%d objects, %d distinct, want %d and %d", counted, len(e.kept), objects, len(distinct))
		}
	})
}

// FuzzRender holds the answers put together by hand to what the encoder makes.
func FuzzRender(f *testing.F) {
	f.Add([]byte("leaf"), uint64(1), "origin\n1\nroot\n\n— origin sig\n", []byte("proof"))
	f.Add([]byte{}, uint64(1)<<63, "\"\\\x00\x1f<>&\u2028\x7f\xff", []byte{})
	f.Fuzz(func(t *testing.T, leaf []byte, index uint64, head string, hashes []byte) {
		r := verify.Receipt{Leaf: leaf, Index: index, Head: strings.ToValidUTF8(head, "?")}
		for i := range hashes {
			r.Proof = append(r.Proof, merkle.Hash{hashes[i]})
		}
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendReceipt(nil, &r); !bytes.Equal(got, want) {
			t.Fatalf("%s, want %s", got, want)
		}
		line := api.BatchLine{Index: index, RegisteredAt: int64(index >> 1), Duplicate: index%2 == 0, Proof: r.Proof}
		if want, err = json.Marshal(line); err != nil {
			t.Fatal(err)
		}
		if got := appendBatchLine(nil, &line); !bytes.Equal(got, append(want, '\n')) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// The rate limit takes an IPv4 address, or the /64 of an IPv6 address, for one
// client.
func TestClientOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7:1": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::]:9": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
		"@": "invalid IP",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address
		if got := clientOf(echo.New().NewContext(r, httptest.NewRecorder())); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
