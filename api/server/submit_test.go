package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// A submitted entry is answered with a receipt that verifies by the pinned root
// alone, and with where it stands.
// Draft: HTTP-1.
func TestSubmitAnswersReceipt(t *testing.T) {
	n := start(t, nil)
	e := n.good()
	a := n.post(api.MediaJSON, e.AppendEnvelope(nil))
	receipt := n.receipt(a, http.StatusCreated)
	logged, at, err := entry.DecodeLeaf(receipt.Leaf)
	must(t, err)
	if !bytes.Equal(logged.PAE(), e.PAE()) {
		t.Fatal("receipt of another entry")
	}
	if got := a.Header.Get(api.HeaderRegisteredAt); got != strconv.FormatInt(at, 10) {
		t.Fatalf("%s %q, leaf says %d", api.HeaderRegisteredAt, got, at)
	}
	if got := a.Header.Get("Location"); got != fmt.Sprintf("/v1/entries/%d", receipt.Index) {
		t.Fatalf("Location %q of entry %d", got, receipt.Index)
	}
	again := n.receipt(n.get(a.Header.Get("Location")+"/receipt"), http.StatusOK)
	if !bytes.Equal(again.Leaf, receipt.Leaf) {
		t.Fatal("another leaf when read again")
	}
}

// The same bytes in another spelling of the envelope, or under another valid
// signature, are the same entry: 200, and the receipt of what was registered.
// Draft: HTTP-1.
func TestSubmitIsIdempotent(t *testing.T) {
	n := start(t, nil)
	e := n.good()
	envelope := e.AppendEnvelope(nil)
	first := n.receipt(n.post(api.MediaJSON, envelope), http.StatusCreated)
	size := n.log.Head().Size
	spaced := bytes.ReplaceAll(envelope, []byte(`":`), []byte("\" :\n "))
	for _, body := range [][]byte{envelope, spaced} {
		again := n.receipt(n.post(api.MediaJSON+"; charset=utf-8", body), http.StatusOK)
		if again.Index != first.Index || !bytes.Equal(again.Leaf, first.Leaf) {
			t.Fatalf("entry %d, registered as %d", again.Index, first.Index)
		}
	}
	if n.log.Head().Size != size {
		t.Fatal("a duplicate was appended")
	}
}

// What is registered is answered for ever, whatever has become of the time, the
// quota and the key since (REG-2); what is new is refused for it.
// Draft: REG-2a.
func TestSubmitAgainWhateverTimeQuotaAndKey(t *testing.T) {
	for _, c := range []struct {
		desc   string
		change func(n *node, key *keys.Signer)
		want   entry.Problem
		status int
	}{
		{"time", func(n *node, _ *keys.Signer) {
			p := n.follower()
			p.Windows.IatMS = 20_000
			n.register(sign(t, n.authority, p))
		}, entry.Stale, http.StatusUnprocessableEntity},
		{"quota", func(n *node, _ *keys.Signer) {
			p := n.follower()
			p.Quotas.EntriesPerHour = 1
			n.register(sign(t, n.authority, p))
		}, entry.RateLimited, http.StatusTooManyRequests},
		{"key", func(n *node, key *keys.Signer) { n.register(sign(t, n.authority, n.revocation("agent-2", key))) },
			entry.UnknownIssuer, http.StatusUnauthorized},
	} {
		t.Run(c.desc, func(t *testing.T) {
			n := start(t, nil)
			key := n.another()
			x := n.execution()
			x.Iss = "agent-2"
			x.Iat -= 200
			e := sign(t, key, x)
			first := n.receipt(n.post(api.MediaJSON, e.AppendEnvelope(nil)), http.StatusCreated)
			c.change(n, key)
			receipt := n.receipt(n.post(api.MediaJSON, e.AppendEnvelope(nil)), http.StatusOK)
			if receipt.Index != first.Index || !bytes.Equal(receipt.Leaf, first.Leaf) {
				t.Fatalf("entry %d, registered as %d", receipt.Index, first.Index)
			}
			x.JTI = uuid.NewString()
			n.problem(n.post(api.MediaJSON, sign(t, key, x).AppendEnvelope(nil)), c.want, c.status)
		})
	}
}

// Another valid signature over the same bytes is a duplicate too; the receipt
// has the signature that was registered.
func TestSubmitAgainWithAnotherSignature(t *testing.T) {
	n := start(t, nil)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	signer, err := keys.NewSigner(private) // its signatures are randomized
	must(t, err)
	n.register(n.enrol("agent-2", signer, entry.RoleAgent))
	x := n.execution()
	x.Iss = "agent-2"
	first := n.receipt(n.post(api.MediaJSON, sign(t, signer, x).AppendEnvelope(nil)), http.StatusCreated)
	again := n.receipt(n.post(api.MediaJSON, sign(t, signer, x).AppendEnvelope(nil)), http.StatusOK)
	if again.Index != first.Index || !bytes.Equal(again.Leaf, first.Leaf) {
		t.Fatal("another entry, or another signature")
	}
}

func batchOf(entries ...*entry.Entry) []byte {
	var body []byte
	for _, e := range entries {
		body = append(e.AppendEnvelope(body), '\n')
	}
	return body
}

// readBatchAnswer takes the answer to a batch apart and verifies every proof.
func (n *node) readBatchAnswer(a *answer, sent []*entry.Entry) ([]api.BatchLine, *api.Problem) {
	n.t.Helper()
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != api.MediaNDJSON {
		n.t.Fatalf("%s %s: %s", a.Status, a.Header.Get("Content-Type"), a.body)
	}
	lines := bytes.Split(bytes.TrimSuffix(a.body, []byte("\n")), []byte("\n"))
	var head api.BatchHead
	must(n.t, json.Unmarshal(lines[0], &head, json.RejectUnknownMembers(true)))
	var results []api.BatchLine
	var receipts []verify.Receipt
	for i, line := range lines[1:] {
		result, problem, err := api.DecodeBatchLine(line)
		must(n.t, err)
		if problem != nil {
			if i != len(lines)-2 {
				n.t.Fatal("a problem before the last line")
			}
			n.verify(verify.Material{Receipts: receipts})
			return results, problem
		}
		results = append(results, *result)
		receipts = append(receipts, verify.Receipt{
			Leaf: sent[i].AppendLeaf(nil, result.RegisteredAt), Index: result.Index, Proof: result.Proof, Head: head.Head,
		})
	}
	n.verify(verify.Material{Receipts: receipts})
	return results, nil
}

// A batch is an ordered prefix: one tree head, a proven result for each line,
// and the problem of the line that ended it; the lines behind it are not looked
// at, and sending all again is safe.
// Draft: REG-10.
func TestBatchIsAPrefix(t *testing.T) {
	n := start(t, nil)
	bad := n.execution()
	bad.Parents = []entry.Parent{{Exec: "agent-1#nowhere", Dep: entry.Hard}}
	sent := []*entry.Entry{n.good(), n.good(), sign(t, n.agent, bad), n.good()}
	size := n.log.Head().Size
	results, problem := n.readBatchAnswer(n.post(api.MediaNDJSON, batchOf(sent...)), sent)
	if len(results) != 2 || problem == nil || problem.Name() != entry.UnknownSubject || problem.Field != "parents[0].exec" {
		t.Fatalf("results %+v, problem %+v", results, problem)
	}
	for i, result := range results {
		if result.Index != size+uint64(i) || result.Duplicate {
			t.Fatalf("line %d: %+v", i, result)
		}
	}
	if n.log.Head().Size != size+2 {
		t.Fatalf("size %d, want %d", n.log.Head().Size, size+2)
	}
	sent[2] = n.good()
	results, problem = n.readBatchAnswer(n.post(api.MediaNDJSON, batchOf(sent...)), sent)
	if problem != nil || len(results) != 4 || !results[0].Duplicate || !results[1].Duplicate || results[2].Duplicate || results[3].Index != size+3 {
		t.Fatalf("sent again: results %+v, problem %v", results, problem)
	}
}

// Where nothing of a batch is registered the answer is the problem, as for one
// envelope.
func TestBatchWithoutPrefixIsAProblem(t *testing.T) {
	n := start(t, nil)
	size := n.log.Head().Size
	alien := n.execution()
	alien.Aud = "elsewhere"
	n.problem(n.post(api.MediaNDJSON, batchOf(sign(t, n.agent, alien), n.good())), entry.WrongAudience, http.StatusForbidden)
	n.problem(n.post(api.MediaNDJSON, []byte("{}\n")), entry.Malformed, http.StatusBadRequest)
	n.problem(n.post(api.MediaNDJSON, []byte("\n"+string(batchOf(n.good())))), entry.Malformed, http.StatusBadRequest)
	n.problem(n.post(api.MediaNDJSON, nil), entry.Malformed, http.StatusBadRequest)
	if n.log.Head().Size != size {
		t.Fatal("something was appended")
	}
	n.register(n.good())
}

// The last line may end without a line break; one line more than the limit is
// refused, and those before it are registered.
func TestBatchLimits(t *testing.T) {
	budget.Unraced(t, "one batch after the other")
	n := start(t, nil)
	sent := []*entry.Entry{n.good(), n.good()}
	results, problem := n.readBatchAnswer(n.post(api.MediaNDJSON, bytes.TrimSuffix(batchOf(sent...), []byte("\n"))), sent)
	if problem != nil || len(results) != 2 {
		t.Fatalf("results %+v, problem %v", results, problem)
	}
	for len(sent) < api.MaxBatchLines+1 {
		sent = append(sent, n.good())
	}
	results, problem = n.readBatchAnswer(n.post(api.MediaNDJSON, batchOf(sent...)), sent)
	if len(results) != api.MaxBatchLines || problem == nil || problem.Name() != entry.TooLarge {
		t.Fatalf("%d results, problem %v", len(results), problem)
	}
	long := append(batchOf(n.good()), bytes.Repeat([]byte(" "), entry.MaxEnvelope+2)...)
	results, problem = n.readBatchAnswer(n.post(api.MediaNDJSON, long), []*entry.Entry{n.last()})
	if len(results) != 1 || problem == nil || problem.Name() != entry.TooLarge {
		t.Fatalf("%d results, problem %v", len(results), problem)
	}
}

// A line of a batch holds an envelope of the largest size, and not one byte
// more, whichever way the line ends.
func TestBatchLineLimit(t *testing.T) {
	n := start(t, nil)
	line := func(e *entry.Entry, size int, end string) []byte {
		envelope := e.AppendEnvelope(nil)
		return append(append(envelope, bytes.Repeat([]byte(" "), size-len(envelope))...), end...)
	}
	for _, end := range []string{"\n", "\r\n", "\r", ""} {
		sent := []*entry.Entry{n.good(), n.good(), n.good()}
		body := line(sent[0], entry.MaxEnvelope, "\n")
		body = append(body, line(sent[1], entry.MaxEnvelope, "\r\n")...)
		results, problem := n.readBatchAnswer(n.post(api.MediaNDJSON, append(body, line(sent[2], entry.MaxEnvelope, end)...)), sent)
		if len(results) != 3 || problem != nil {
			t.Errorf("at the limit, ending in %q: %d results, problem %v", end, len(results), problem)
		}
		sent = []*entry.Entry{n.good()}
		body = append(batchOf(sent...), line(n.good(), entry.MaxEnvelope+1, end)...)
		body = append(body, batchOf(n.good())...)
		results, problem = n.readBatchAnswer(n.post(api.MediaNDJSON, body), sent)
		if len(results) != 1 || problem == nil || problem.Name() != entry.TooLarge {
			t.Errorf("one past the limit, ending in %q: %d results, problem %v", end, len(results), problem)
		}
	}
}

// last returns the newest entry.
func (n *node) last() *entry.Entry {
	n.t.Helper()
	logged, err := n.log.Entry(n.log.Head().Size - 1)
	must(n.t, err)
	return logged.Entry
}

// An envelope of the largest size is taken, one byte more is not, however its
// length is told.
func TestBodyLimit(t *testing.T) {
	n := start(t, nil)
	body := n.good().AppendEnvelope(nil)
	body = append(body, bytes.Repeat([]byte(" "), entry.MaxEnvelope-len(body))...)
	n.receipt(n.post(api.MediaJSON, body), http.StatusCreated)
	size := n.log.Head().Size
	body = append(body, ' ')
	n.problem(n.post(api.MediaJSON, body), entry.TooLarge, http.StatusRequestEntityTooLarge)
	chunked := n.request(http.MethodPost, "/v1/entries", api.MediaJSON, body)
	chunked.ContentLength = -1
	n.problem(n.do(chunked), entry.TooLarge, http.StatusRequestEntityTooLarge)
	chunked = n.request(http.MethodPost, "/v1/entries", api.MediaJSON, n.good().AppendEnvelope(nil))
	chunked.ContentLength = -1
	if n.log.Head().Size != size {
		t.Fatal("something was appended")
	}
	n.receipt(n.do(chunked), http.StatusCreated)
}

// What is put together by hand is what the encoder makes of the types.
func TestAnswersAreCanonical(t *testing.T) {
	n := start(t, nil)
	sent := []*entry.Entry{n.good(), n.good()}
	a := n.post(api.MediaNDJSON, batchOf(sent[0], sent[0], sent[1]))
	for i, line := range bytes.Split(bytes.TrimSuffix(a.body, []byte("\n")), []byte("\n")) {
		var v any = new(api.BatchHead)
		if i > 0 {
			v = new(api.BatchLine)
		}
		must(t, json.Unmarshal(line, v, json.RejectUnknownMembers(true)))
		again, err := json.Marshal(v)
		must(t, err)
		if !bytes.Equal(line, again) {
			t.Fatalf("line %d is\n%s\nthe encoder writes\n%s", i, line, again)
		}
	}
	item := value[api.Page](n, "/v1/entries?from=1&limit=1")
	receipt, err := item.Entries[0].Receipt(item.Head)
	must(t, err)
	if merkle.HashLeaf(receipt.Leaf) != item.Entries[0].LeafHash {
		t.Fatal("an item's receipt has another leaf")
	}
	n.verify(verify.Material{Receipts: []verify.Receipt{receipt}})
}
