package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/metrics"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// court is a node that keeps evidence in a file.
type court struct {
	*node
	path     string
	evidence *server.Evidence
	log      lockedBuffer
}

func newCourt(t *testing.T) *court {
	t.Helper()
	c := &court{path: filepath.Join(t.TempDir(), "evidence.ndjson")}
	c.open()
	c.node = start(t, func(cfg *server.Config) {
		cfg.Evidence, cfg.Logger = c.evidence, slog.New(slog.NewJSONHandler(&c.log, nil))
	})
	t.Cleanup(func() { must(t, c.evidence.Close()) })
	return c
}

func (c *court) open() {
	evidence, err := server.OpenEvidence(c.path)
	if err != nil {
		panic(err)
	}
	c.evidence = evidence
}

// restart serves the same log with the evidence opened again.
func (c *court) restart() {
	c.t.Helper()
	must(c.t, c.evidence.Close())
	c.open()
	address, _ := c.serve(func(cfg *server.Config) { cfg.Evidence = c.evidence })
	c.url = "http://" + address
}

// taken registers an execution of the issuer and returns it: its id is taken.
func (c *court) taken(iss entry.Principal, signer *keys.Signer) *entry.Execution {
	c.t.Helper()
	x := c.execution()
	x.Iss = iss
	c.register(sign(c.t, signer, x))
	return x
}

// other returns another object under the id of x.
func other(t *testing.T, signer *keys.Signer, x *entry.Execution, exec string) *entry.Entry {
	t.Helper()
	y := *x
	y.Exec = exec
	return sign(t, signer, &y)
}

// conflict submits an object whose id is taken, and reports whether it was kept.
func (c *court) conflict(e *entry.Entry) bool {
	c.t.Helper()
	before, size := len(c.kept()), c.node.log.Head().Size
	c.problem(c.post(api.MediaJSON, e.AppendEnvelope(nil)), entry.IDConflict, http.StatusConflict)
	if c.node.log.Head().Size != size {
		c.t.Fatal("something was appended")
	}
	return len(c.kept()) > before
}

// kept returns the objects in the file, every line of which must be whole.
func (c *court) kept() (objects []*entry.Entry) {
	c.t.Helper()
	content, err := os.ReadFile(c.path)
	must(c.t, err)
	for line := range bytes.Lines(content) {
		var record struct {
			Detail   string         `json:"detail"`
			Index    uint64         `json:"index"`
			Envelope jsontext.Value `json:"envelope"`
		}
		must(c.t, json.Unmarshal(line, &record, json.RejectUnknownMembers(true)))
		object, err := entry.Decode(record.Envelope)
		must(c.t, err)
		objects = append(objects, object)
	}
	return objects
}

// Two objects validly signed under one id are equivocation: the second is kept
// as evidence, outside the log. A mere claim is not.
func TestEquivocationIsKept(t *testing.T) {
	c := newCourt(t)
	x := c.taken("agent-1", c.agent)
	forgery := other(t, c.agent, x, "forged")
	forgery.Seal(forgery.KeyID, make([]byte, 64))
	if c.conflict(forgery) {
		t.Fatal("a forgery was kept")
	}
	stranger := other(t, c.monitor, x, "stranger") // an enrolled key, of somebody else
	if c.conflict(stranger) {
		t.Fatal("an object by another's key was kept")
	}
	second := other(t, c.agent, x, "other")
	c.problem(c.post(api.MediaNDJSON, batchOf(second)), entry.IDConflict, http.StatusConflict)
	if kept := c.kept(); len(kept) != 1 || !bytes.Equal(kept[0].PAE(), second.PAE()) {
		t.Fatalf("kept %v", kept)
	}
	if records := c.log.records(t, "equivocation"); len(records) != 1 || records[0]["kept"] != true || records[0]["iss"] != "agent-1" {
		t.Fatalf("records %v", records)
	}
}

// The same object again, also under another signature and after a restart, adds
// nothing.
func TestEquivocationIsKeptOnce(t *testing.T) {
	c := newCourt(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	signer, err := keys.NewSigner(private) // its signatures are randomized
	must(t, err)
	c.register(c.enrol("agent-2", signer, entry.RoleAgent))
	x := c.taken("agent-2", signer)
	if !c.conflict(other(t, signer, x, "other")) {
		t.Fatal("not kept")
	}
	for range 3 {
		if c.conflict(other(t, signer, x, "other")) {
			t.Fatal("kept again")
		}
	}
	if n := c.metric(invariantSeries(metrics.Equivocated)); n != "1" {
		t.Errorf("counted: %s, want 1", n)
	}
	c.restart()
	if c.conflict(other(t, signer, x, "other")) {
		t.Fatal("kept again after a restart")
	}
	if !c.conflict(other(t, signer, x, "third")) {
		t.Fatal("another object was not kept")
	}
}

// One issuer does not fill the file for the others, also across a restart.
func TestEvidenceOfOneIssuerIsBounded(t *testing.T) {
	c := newCourt(t)
	x := c.taken("agent-1", c.agent)
	for i := range server.MaxIssuerEvidence {
		if i == server.MaxIssuerEvidence/2 {
			c.restart()
		}
		if !c.conflict(other(t, c.agent, x, "other-"+strconv.Itoa(i))) {
			t.Fatalf("object %d was not kept", i)
		}
	}
	c.restart()
	before, err := strconv.Atoi(c.metric(invariantSeries(metrics.Equivocated)))
	must(t, err)
	more := other(t, c.agent, x, "one-more")
	for range 3 { // it counts once
		if c.conflict(more) {
			t.Fatal("one past the limit was kept")
		}
	}
	if n := c.metric(invariantSeries(metrics.Equivocated)); n != strconv.Itoa(before+1) {
		t.Errorf("%d equivocations before one that has no room, and %s after it", before, n)
	}
	second := newSigner(t)
	c.register(c.enrol("agent-2", second, entry.RoleAgent))
	if !c.conflict(other(t, second, c.taken("agent-2", second), "other")) {
		t.Fatal("that of another issuer was not kept")
	}
}

// A key that no longer counts convicts its owner still.
func TestEquivocationByRevokedKeyIsKept(t *testing.T) {
	c := newCourt(t)
	lost := newSigner(t)
	c.register(c.enrol("agent-2", lost, entry.RoleAgent))
	x := c.taken("agent-2", lost)
	revoke := c.enrolment("agent-2", lost, entry.RoleAgent)
	revoke.Op = entry.Revoke
	c.register(sign(t, c.authority, revoke))
	if !c.conflict(other(t, lost, x, "other")) {
		t.Fatal("not kept")
	}
}

// The file takes lines up to its size, and not a byte more.
func TestEvidenceFileIsBounded(t *testing.T) {
	c := newCourt(t)
	x := c.taken("agent-1", c.agent)
	if !c.conflict(other(t, c.agent, x, "other-1")) {
		t.Fatal("not kept")
	}
	info, err := os.Stat(c.path)
	must(t, err)
	c.evidence.SetMax(2*info.Size() - 1)
	if c.conflict(other(t, c.agent, x, "other-2")) {
		t.Fatal("kept beyond the limit")
	}
	c.evidence.SetMax(2 * info.Size())
	if !c.conflict(other(t, c.agent, x, "other-2")) {
		t.Fatal("not kept at the limit")
	}
}

// A line that a crash left unfinished is cut off; lines of others stay.
func TestEvidenceTornTail(t *testing.T) {
	c := newCourt(t)
	x := c.taken("agent-1", c.agent)
	c.conflict(other(t, c.agent, x, "other-1"))
	whole, err := os.ReadFile(c.path)
	must(t, err)
	note := []byte(`{"detail":"a note by hand"}` + "\n")
	for cut := 1; cut < len(whole); cut += len(whole) / 7 {
		must(t, os.WriteFile(c.path, append(append(bytes.Clone(note), whole...), whole[:cut]...), 0o600))
		c.restart()
		content, err := os.ReadFile(c.path)
		must(t, err)
		if !bytes.Equal(content, append(bytes.Clone(note), whole...)) {
			t.Fatalf("torn at %d: %q", cut, content)
		}
	}
	must(t, os.WriteFile(c.path, whole[:len(whole)/2], 0o600))
	c.restart()
	if !c.conflict(other(t, c.agent, x, "other-1")) || len(c.kept()) != 1 {
		t.Fatal("what was lost is not kept again")
	}
}

// TestEvidenceIsServed with all that a verifier needs, in pages, also after a
// restart; a line about an entry that a loss of power took is left out.
func TestEvidenceIsServed(t *testing.T) {
	c := newCourt(t)
	const count = 23 // more than a page
	for i := range count {
		signer, name := newSigner(t), entry.Principal("agent-"+strconv.Itoa(i+2))
		c.register(c.enrol(name, signer, entry.RoleAgent))
		if !c.conflict(other(t, signer, c.taken(name, signer), "other")) {
			t.Fatalf("object %d was not kept", i)
		}
	}
	c.restart()
	for _, path := range []string{"/v1/evidence", "/v1/evidence?limit=10"} {
		var got []verify.Equivocation
		for path != "" {
			page := value[api.EvidencePage](c.node, path)
			var m verify.Material
			for _, e := range page.Evidence {
				must(t, m.AddEvidence(e))
			}
			report, err := c.root().Verify(m)
			must(t, err)
			if len(report.Missing) > 0 {
				t.Fatalf("missing %q", report.Missing)
			}
			got, path = append(got, report.Equivocations...), page.Next
		}
		if len(got) != count || got[0].Principal != "agent-2" || got[count-1].Principal != "agent-24" {
			t.Errorf("%d pieces of evidence: %v", len(got), got)
		}
	}
	reader, err := client.New(c.url, c.root(), nil)
	must(t, err)
	read := 0
	for _, err := range reader.Evidence(t.Context()) {
		must(t, err)
		read++
	}
	if read != count {
		t.Errorf("a client reads %d pieces of evidence", read)
	}
	must(t, c.evidence.Close())
	content, err := os.ReadFile(c.path)
	must(t, err)
	lines := bytes.SplitAfter(content, []byte("\n"))
	lost := regexp.MustCompile(`"index":\d+`)
	content = append(lost.ReplaceAll(lines[0], []byte(`"index":1`)), lost.ReplaceAll(lines[1], []byte(`"index":99999`))...) // another entry, none
	must(t, os.WriteFile(c.path, append(content, lines[2]...), 0o600))
	c.open()
	address, _ := c.serve(func(cfg *server.Config) { cfg.Evidence = c.evidence })
	c.url = "http://" + address
	if page := value[api.EvidencePage](c.node, "/v1/evidence"); len(page.Evidence) != 1 {
		t.Errorf("%d pieces of evidence, want one", len(page.Evidence))
	}
}
