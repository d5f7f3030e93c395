package entry_test

import (
	"cmp"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// Limits that the package does not export; a test of each holds them to the
// ones in limits.go.
const (
	membersMost = 64
	sigMost     = 72
	keyDERMost  = 2048
	uriMost     = 1024
	tokenMost   = 64
)

// TestLimitsOfMembers sets members of good payloads to the largest that their
// limit allows, and to one more.
func TestLimitsOfMembers(t *testing.T) {
	text := func(c string) func(int) string { return func(n int) string { return `"` + strings.Repeat(c, n) + `"` } }
	list := func(element func(i int) string) func(int) string {
		return func(n int) string {
			elements := make([]string, n)
			for i := range elements {
				elements[i] = element(i)
			}
			return "[" + strings.Join(elements, ",") + "]"
		}
	}
	numbers := list(func(i int) string { return fmt.Sprint(i) })
	refs := list(func(i int) string { return fmt.Sprintf(`"a#%d"`, i) })
	authority := list(func(i int) string {
		return `{"principal":"p","key":"` + publicKey(t, fmt.Sprint("limit ", i)).String() + `"}`
	})
	for _, c := range []struct {
		kind  entry.Kind
		path  string
		limit int
		fill  func(n int) string
		field string // at fault; empty: path
	}{
		{entry.KindExecution, "iss", entry.MaxName, text("i"), ""},
		{entry.KindExecution, "aud", entry.MaxName, text("a"), ""},
		{entry.KindExecution, "wid", entry.MaxName, text("w"), ""},
		{entry.KindExecution, "exec", entry.MaxName, text("e"), ""},
		{entry.KindExecution, "task", entry.MaxName, func(n int) string { return `"` + strings.Repeat("i", n) + `#x"` }, ""},
		{entry.KindExecution, "task", entry.MaxName, func(n int) string { return `"x#` + strings.Repeat("i", n) + `"` }, ""},
		{entry.KindExecution, "parents", entry.MaxParents, list(func(i int) string { return fmt.Sprintf(`{"exec":"a#%d","dep":"hard"}`, i) }), ""},
		{entry.KindCheckpoint, "checkpoint", entry.MaxName, text("c"), ""},
		{entry.KindCheckpoint, "loc", uriMost, text("l"), ""},
		{entry.KindTask, "max_retries", entry.MaxRetries, func(n int) string { return fmt.Sprint(n) }, ""},
		{entry.KindTask, "lease_ms", entry.MaxLeaseMS, func(n int) string { return fmt.Sprint(n) }, ""},
		{entry.KindTask, "lease_ms", -entry.MinLeaseMS, func(n int) string { return fmt.Sprint(-n) }, ""},
		{entry.KindAgent, "principal", entry.MaxName, text("p"), ""},
		{entry.KindAgent, "domain", entry.MaxName, text("d"), ""},
		{entry.KindAgent, "capabilities", entry.MaxList, list(func(i int) string { return fmt.Sprintf(`"c%d"`, i) }), ""},
		{entry.KindAgent, "capabilities[0]", tokenMost, text("c"), ""},
		{entry.KindPolicy, "authority", entry.MaxList, authority, ""},
		{entry.KindPolicy, "ledger_keys", entry.MaxList, list(func(i int) string { return fmt.Sprintf(`"k%d"`, i) }), ""},
		{entry.KindSignal, "class", tokenMost, text("c"), ""},
		{entry.KindSignal, "code", tokenMost, text("c"), ""},
		{entry.KindSignal, "detail", entry.MaxText, text("d"), ""},
		{entry.KindSignal, "detail", entry.MaxText / 4, text("𝄞"), ""}, // four bytes each
		{entry.KindSignal, "evidence", entry.MaxList, list(func(int) string { return `{"digest":"` + digestA + `"}` }), ""},
		{entry.KindSignal, "evidence[0].uri", uriMost, text("u"), ""},
		{entry.KindDecision, "reason", entry.MaxText, text("r"), ""},
		{entry.KindDecision, "dismissed", entry.MaxList, list(func(i int) string { return fmt.Sprintf(`{"index":%d,"reason":"r"}`, i) }), ""},
		{entry.KindDecision, "dismissed[0].reason", entry.MaxText, text("r"), ""},
		{entry.KindDecision, "approvals", entry.MaxList, numbers, ""},
		{entry.KindDecision, "members", entry.MaxList, refs, ""},
		{entry.KindDecision, "dispositions", entry.MaxList, list(func(i int) string { return fmt.Sprintf(`{"index":%d,"disposition":"self_reported"}`, i) }), ""},
		{entry.KindApproval, "reason", entry.MaxText, text("r"), ""},
		{entry.KindOutcome, "residual", entry.MaxText, text("r"), ""},
		{entry.KindOutcome, "evidence", entry.MaxList, list(func(int) string { return `{"digest":"` + digestA + `"}` }), ""},
		{entry.KindRecord, "dispositions[0].domains", entry.MaxList, list(func(i int) string { return fmt.Sprintf(`"d%d"`, i) }), ""},
		{entry.KindRecord, "dispositions[0].domains[0]", entry.MaxName, text("d"), ""},
		{entry.KindRecord, "dispositions", entry.MaxList, list(func(i int) string { return fmt.Sprintf(`{"index":%d,"disposition":"self_reported"}`, i) }), ""},
		{entry.KindTask, "reason", entry.MaxText, text("r"), ""},
		{entry.KindTask, "type", tokenMost, text("t"), ""},
		{entry.KindTask, "agent", entry.MaxName, text("a"), ""},
		{entry.KindTask, "snapshot.status", tokenMost, text("s"), ""},
		{entry.KindAttempt, "run", entry.MaxName, text("r"), ""},
		{entry.KindAttempt, "case", entry.MaxName, text("c"), ""},
		{entry.KindAttempt, "rungs[1].model", entry.MaxName, text("m"), ""},
		{entry.KindAttempt, "rungs[1].reason", entry.MaxText, text("r"), ""},
		{entry.KindAttempt, "rungs", entry.MaxList, list(func(i int) string {
			return `{"attempt":1,"class":"c","code":"c","rule":"r","strategy":"s","result":"r","reason":""}`
		}), ""},
		{entry.KindAttempt, "also", entry.MaxAlso, list(func(i int) string {
			return fmt.Sprintf(`{"case":"also-%d","rungs":[],"status":"escalated","trace_digest":%q}`, i, digestA)
		}), ""},
		{entry.KindRun, "engine", entry.MaxName, text("e"), ""},
		{entry.KindExecution, "x", entry.MaxDepth - 1, func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }, "payload"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.kind, c.path), func(t *testing.T) {
			base := payloadOf(t, full(t, c.kind))
			if _, err := entry.NewRaw(c.kind, []byte(changed(t, base, c.path, c.fill(c.limit)))); err != nil {
				t.Errorf("refused at the limit: %v", err)
			}
			_, err := entry.NewRaw(c.kind, []byte(changed(t, base, c.path, c.fill(c.limit+1))))
			field := cmp.Or(c.field, c.path)
			if problem, at := problemOf(err); problem != string(entry.Malformed) || at != field {
				t.Errorf("one past the limit: %v", err)
			}
		})
	}
}

// TestLimitInteger sets a number to 2^53 − 1 and 2^53, and their negatives.
func TestLimitInteger(t *testing.T) {
	base := payloadOf(t, full(t, entry.KindRun))
	for value, good := range map[int64]bool{entry.MaxInteger: true, entry.MaxInteger + 1: false, -entry.MaxInteger: true, -entry.MaxInteger - 1: false} {
		for _, member := range []string{"seed", "x"} {
			_, err := entry.NewRaw(entry.KindRun, []byte(changed(t, base, member, fmt.Sprint(value))))
			if problem, field := problemOf(err); (err == nil) != good || !good && (problem != string(entry.Malformed) || field != member) {
				t.Errorf("%s %d: %v", member, value, err)
			}
		}
	}
}

// TestLimitMembers fills a payload with unknown members.
func TestLimitMembers(t *testing.T) {
	base := payloadOf(t, minimal(t, entry.KindExecution))
	have := strings.Count(string(base), `":`)
	for n, good := range map[int]bool{membersMost: true, membersMost + 1: false} {
		payload := strings.TrimSuffix(string(base), "}") + unknownMembers(n-have) + "}"
		if _, err := entry.NewRaw(entry.KindExecution, []byte(payload)); (err == nil) != good {
			t.Errorf("%d members: %v", n, err)
		}
	}
}

// TestLimitEnvelope pads an envelope with spaces, and fills one with payload: the
// largest leaf fits an entry of a tlog-tiles bundle.
// Draft: ENV-10.
func TestLimitEnvelope(t *testing.T) {
	canonical := string(signed(t).AppendEnvelope(nil))
	spaces := func(size int) []byte { return []byte(canonical + strings.Repeat(" ", size-len(canonical))) }
	if _, err := entry.Decode(spaces(entry.MaxEnvelope)); err != nil {
		t.Error(err)
	}
	_, err := entry.Decode(spaces(entry.MaxEnvelope + 1))
	if problem, field := problemOf(err); problem != string(entry.TooLarge) || field != "" {
		t.Errorf("one past the limit: %v", err)
	}
	v := generateVectors(t)["envelope/size-limit-payload"]
	e, err := entry.Decode(inputBytes(t, v.Input))
	must(t, err)
	if leaf := e.AppendLeaf(nil, entry.MaxInteger); len(leaf) > 65_535 {
		t.Errorf("a leaf of %d bytes", len(leaf))
	}
}

// TestLimitNew: what New accepts, Decode accepts with the longest signature.
func TestLimitNew(t *testing.T) {
	v := generateVectors(t)
	e, err := entry.NewRaw(entry.KindExecution, inputBytes(t, v["payload/rules/size-largest"].Input))
	must(t, err)
	e.Seal(keyID(ed25519Key("agent").Public()), make([]byte, sigMost))
	envelope := e.AppendEnvelope(nil)
	if _, err := entry.Decode(envelope); err != nil || entry.MaxEnvelope-len(envelope) > 3 {
		t.Errorf("%d bytes: %v", len(envelope), err)
	}
	_, err = entry.NewRaw(entry.KindExecution, inputBytes(t, v["payload/rules/size-too-large"].Input))
	if problem, _ := problemOf(err); problem != string(entry.TooLarge) {
		t.Errorf("one past the limit: %v", err)
	}
}

// TestLimitSignature gives signatures and key ids of the longest size, and longer.
func TestLimitSignature(t *testing.T) {
	e := signed(t)
	for size, good := range map[int]bool{0: false, 1: true, sigMost: true, sigMost + 1: false} {
		e.Seal(e.KeyID, make([]byte, size))
		_, err := entry.Decode(e.AppendEnvelope(nil))
		if _, field := problemOf(err); (err == nil) != good || !good && field != "signatures[0].sig" {
			t.Errorf("signature of %d bytes: %v", size, err)
		}
	}
	for size, good := range map[int]bool{entry.MaxKeyID - 1: false, entry.MaxKeyID: true, entry.MaxKeyID + 1: false} {
		e.Seal("SHA256:"+strings.Repeat("A", size-7), []byte{1})
		_, err := entry.Decode(e.AppendEnvelope(nil))
		if _, field := problemOf(err); (err == nil) != good || !good && field != "signatures[0].keyid" {
			t.Errorf("keyid of %d characters: %v", size, err)
		}
	}
}

// TestLimitKey gives a key of another algorithm that is as large as a key may
// be to be refused by its name, and a larger one.
func TestLimitKey(t *testing.T) {
	sized := func(size int) []byte {
		oid := asn1.ObjectIdentifier{1, 3, 101, 113}
		der := spki(t, oid, nil, make([]byte, size-20))
		return spki(t, oid, nil, make([]byte, size-20+size-len(der)))
	}
	for size, problem := range map[int]entry.Problem{keyDERMost: entry.UnsupportedAlg, keyDERMost + 1: entry.Malformed} {
		der := sized(size)
		_, err := entry.ParsePublicKey(der)
		if got, field := problemOf(err); len(der) != size || got != string(problem) || field != "key" {
			t.Errorf("key of %d bytes: %v", len(der), err)
		}
		payload := changed(t, payloadOf(t, full(t, entry.KindAgent)), "key", `"`+base64.StdEncoding.EncodeToString(der)+`"`)
		_, err = entry.NewRaw(entry.KindAgent, []byte(payload))
		if got, field := problemOf(err); got != string(problem) || field != "key" {
			t.Errorf("agent with a key of %d bytes: %v", size, err)
		}
	}
}
