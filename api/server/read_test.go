package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// list follows the pages from a path and verifies every entry.
func (n *node) list(path string) (indexes []uint64, pages int) {
	n.t.Helper()
	for path != "" {
		page := value[api.Page](n, path)
		var receipts []verify.Receipt
		for _, item := range page.Entries {
			receipt, err := item.Receipt(page.Head)
			must(n.t, err)
			if merkle.HashLeaf(receipt.Leaf) != item.LeafHash {
				n.t.Fatalf("leaf hash of entry %d", item.Index)
			}
			receipts = append(receipts, receipt)
			indexes = append(indexes, item.Index)
		}
		if len(receipts) > 0 {
			n.verify(verify.Material{Receipts: receipts})
		}
		path = page.Next
		pages++
	}
	return indexes, pages
}

// A log with entries of two agents, two workflows and three kinds, and what
// each index should find, by a slow walk over all entries.
func (n *node) mixed() (find func(match func(e *entry.Entry, index uint64) bool) []uint64) {
	n.t.Helper()
	second := newSigner(n.t)
	n.register(n.enrol("team/agent-2", second, entry.RoleAgent))
	for i := range 40 {
		x := n.execution()
		x.Wid = entry.WorkflowID(fmt.Sprintf("flow-%d", i%2))
		signer := n.agent
		if i%3 == 0 {
			x.Iss, signer = "team/agent-2", second
		}
		n.register(sign(n.t, signer, x))
		if i%5 == 0 {
			s := n.signal(x.Ref())
			s.Iss, s.Wid = x.Iss, x.Wid
			n.register(sign(n.t, signer, s))
		}
	}
	return func(match func(*entry.Entry, uint64) bool) (found []uint64) {
		for e, err := range n.log.Entries(n.t.Context(), 0, n.log.Head().Size) {
			must(n.t, err)
			if match(e.Entry, e.Index) {
				found = append(found, e.Index)
			}
		}
		return found
	}
}

// A page looks at so many entries and not at one more: it ends before it is full,
// and the list goes on behind it.
func TestListOfRareEntries(t *testing.T) {
	budget.Unraced(t, "one client asks, as in TestListFilters")
	n := start(t, nil)
	for left := server.MaxScan; left > 0; left -= min(left, api.MaxBatchLines) {
		var batch []*entry.Entry
		for range min(left, api.MaxBatchLines) {
			batch = append(batch, n.good())
		}
		if a := n.post(api.MediaNDJSON, batchOf(batch...)); a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", a.Status, a.body)
		}
	}
	const rare = "/v1/entries?workflow=flow-1&kind=signal"
	if page := value[api.Page](n, rare); len(page.Entries) != 0 || page.Next != "" {
		t.Fatalf("at the limit: %d entries, next %q", len(page.Entries), page.Next)
	}
	x := n.execution()
	n.register(sign(t, n.agent, x), sign(t, n.agent, n.signal(x.Ref())))
	if page := value[api.Page](n, rare); len(page.Entries) != 0 || page.Next == "" {
		t.Fatalf("past the limit: %d entries, next %q", len(page.Entries), page.Next)
	}
	if found, pages := n.list(rare); len(found) != 1 || found[0] != n.log.Head().Size-1 || pages != 2 {
		t.Fatalf("found %v on %d pages", found, pages)
	}
	// Kinds with more entries than are read from an index at once.
	both, _ := n.list("/v1/entries?kind=signal,execution&limit=1000")
	executions, _ := n.list("/v1/entries?kind=execution&limit=1000")
	if want := slices.Concat(executions, []uint64{n.log.Head().Size - 1}); !slices.Equal(both, want) {
		t.Fatalf("two kinds: %d entries, want %d", len(both), len(want))
	}
}

// Every filter, alone and together, in both directions and for every size of a
// page, finds what a walk over the log finds.
func TestListFilters(t *testing.T) {
	budget.Unraced(t, "one request after the other; TestListByTime has the same route")
	n := start(t, nil)
	find := n.mixed()
	all := map[string]func(e *entry.Entry, index uint64) bool{
		"":            func(*entry.Entry, uint64) bool { return true },
		"kind=signal": func(e *entry.Entry, _ uint64) bool { return e.Kind == entry.KindSignal },
		"agent=team%2Fagent-2": func(e *entry.Entry, _ uint64) bool {
			return e.Header.Iss == "team/agent-2" || about(e) == "team/agent-2"
		},
		"workflow=flow-1": func(e *entry.Entry, _ uint64) bool { return e.Header.Wid == "flow-1" },
		"workflow=flow-1&kind=signal&agent=agent-1": func(e *entry.Entry, _ uint64) bool {
			return e.Header.Wid == "flow-1" && e.Kind == entry.KindSignal && e.Header.Iss == "agent-1"
		},
		"from=7&before=23": func(_ *entry.Entry, index uint64) bool { return 7 <= index && index < 23 },
		"kind=execution&from=7&before=23": func(e *entry.Entry, index uint64) bool {
			return e.Kind == entry.KindExecution && 7 <= index && index < 23
		},
		"kind=signal,agent": func(e *entry.Entry, _ uint64) bool { return e.Kind == entry.KindSignal || e.Kind == entry.KindAgent },
		"kind=signal,execution&workflow=flow-1": func(e *entry.Entry, _ uint64) bool {
			return e.Header.Wid == "flow-1" && (e.Kind == entry.KindSignal || e.Kind == entry.KindExecution)
		},
		"kind=policy,signal,outcome&from=7&before=23": func(e *entry.Entry, index uint64) bool {
			return (e.Kind == entry.KindSignal || e.Kind == entry.KindPolicy) && 7 <= index && index < 23
		},
		"incident=5":   func(e *entry.Entry, index uint64) bool { return e.Kind == entry.KindSignal && index == 5 },
		"kind=outcome": func(*entry.Entry, uint64) bool { return false },
		"from=9000":    func(*entry.Entry, uint64) bool { return false },
	}
	for query, match := range all {
		want := find(match)
		for _, limit := range []int{1, 3, len(want), 1000} {
			if limit == 0 {
				continue
			}
			path := fmt.Sprintf("/v1/entries?%s&limit=%d", query, limit)
			got, pages := n.list(path)
			if !slices.Equal(got, want) || pages > len(want)/limit+1 {
				t.Fatalf("%s: %v in %d pages, want %v", path, got, pages, want)
			}
			got, _ = n.list(path + "&newest=true")
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%s newest: %v, want %v", path, got, want)
			}
		}
	}
}

func about(e *entry.Entry) entry.Principal {
	if a, ok := e.Body.(*entry.Agent); ok {
		return a.Principal
	}
	return ""
}

// Bounds of time cut the list where registered_at says.
func TestListByTime(t *testing.T) {
	n := start(t, nil)
	n.mixed()
	var at []int64
	for e, err := range n.log.Entries(t.Context(), 0, n.log.Head().Size) {
		must(t, err)
		at = append(at, e.RegisteredAt)
	}
	for _, since := range []int{0, 3, len(at) / 2, len(at) - 1} {
		for _, until := range []int{1, len(at) / 2, len(at) - 1} {
			got, _ := n.list(fmt.Sprintf("/v1/entries?since=%d&until=%d&limit=5", at[since], at[until]))
			var want []uint64
			for i, instant := range at {
				if at[since] <= instant && instant < at[until] {
					want = append(want, uint64(i))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("since %d until %d: %v, want %v", at[since], at[until], got, want)
			}
		}
	}
}

// A page follows the log: what comes while pages are turned is on a later one.
func TestListGrows(t *testing.T) {
	n := start(t, nil)
	n.register(n.good(), n.good())
	page := value[api.Page](n, "/v1/entries?kind=execution&limit=1")
	n.register(n.good())
	rest, _ := n.list(page.Next)
	if want := []uint64{4, 5}; !slices.Equal(rest, want) {
		t.Fatalf("rest %v, want %v", rest, want)
	}
}

// A query that is not understood is refused by the parameter's name.
func TestQueryProblems(t *testing.T) {
	n := start(t, nil)
	for _, c := range []struct{ path, field, remedy string }{
		{"/v1/entries?knid=signal", "knid", "did you mean kind?"},
		{"/v1/entries?x=1", "x", "use kind, agent, workflow, incident, task, since, until, from, before, limit, newest"},
		{"/v1/entries?kind=rumour", "kind", ""},
		{"/v1/entries?kind=", "kind", ""},
		{"/v1/entries?limit=0", "limit", ""},
		{"/v1/entries?limit=1001", "limit", ""},
		{"/v1/entries?from=01", "from", ""},
		{"/v1/entries?from=-1", "from", ""},
		{"/v1/entries?newest=yes", "newest", ""},
		{"/v1/entries?incident=first", "incident", ""},
		{"/v1/entries?agent=a%00b", "agent", ""},
		{"/v1/entries?kind=run&kind=run", "kind", ""},
		{"/v1/entries?kind=%zz", "", "correct the mistake that detail names"},
		{"/v1/agents?limit=x", "limit", ""},
		{"/v1/agents?limt=1", "limt", "did you mean limit?"},
		{"/v1/log?x=1", "x", "this path takes no parameters"},
		{"/v1/entries/1?x=1", "x", "this path takes no parameters"},
		{"/v1/entries/x", "index", ""},
		{"/v1/entries/01", "index", ""},
		{"/v1/entries/01/receipt", "index", ""},
		{"/v1/consistency/2/1", "old", ""},
		{"/v1/consistency/x/1", "old", ""},
		{"/v1/consistency/1/x", "new", ""},
		{"/v1/events?from=x", "from", ""},
		{"/checkpoint?x=1", "x", ""},
		{"/healthz?x=1", "x", ""},
		{"/readyz?x=1", "x", ""},
	} {
		p := n.problem(n.get(c.path), entry.Malformed, http.StatusBadRequest)
		if p.Field != c.field || c.remedy != "" && p.Remedy != c.remedy {
			t.Errorf("GET %s: field %q, remedy %q, want %q, %q", c.path, p.Field, p.Remedy, c.field, c.remedy)
		}
	}
	for _, limit := range []string{"0", "1001", "1000000", "x"} {
		p := n.problem(n.get("/v1/entries?limit="+limit), entry.Malformed, http.StatusBadRequest)
		if want := fmt.Sprintf("%q is not a number from 1 to 1000", limit); p.Detail != want {
			t.Errorf("limit=%s: %s, want %s", limit, p.Detail, want)
		}
	}
	for _, index := range []string{"18446744073709551616", "01", "-1"} {
		p := n.problem(n.get("/v1/entries/"+index), entry.Malformed, http.StatusBadRequest)
		if want := fmt.Sprintf("%q is not a number from 0 to 18446744073709551615", index); p.Detail != want {
			t.Errorf("index %s: %s, want %s", index, p.Detail, want)
		}
	}
	p := n.problem(n.do(n.request(http.MethodPost, "/v1/entries?dry=1", api.MediaJSON, n.good().AppendEnvelope(nil))),
		entry.Malformed, http.StatusBadRequest)
	if p.Field != "dry" {
		t.Errorf("field %q", p.Field)
	}
}

// What is not there is not-found, whatever kind of thing it is.
func TestNotFound(t *testing.T) {
	n := start(t, nil)
	for _, path := range []string{"/v1/entries/9", "/v1/entries/18446744073709551615", "/v1/entries/9/receipt", "/v1/consistency/1/9",
		"/v1/entries/18446744073709551615/receipt", "/v1/consistency/1/18446744073709551615", "/v1/consistency/0/18446744073709551615",
		"/v1/consistency/18446744073709551615/18446744073709551615", "/v1/events?from=18446744073709551615",
		"/v1/agents/nobody", "/v1/agents/a%2Fb", "/v1/events?from=9", "/", "/v1", "/v1/entries/1/more", "/tile/0/000", "/tile/0/000.p/9",
		"/tile/1/000.p/1", "/tile/64/000", "/tile/0/0", "/tile/0/x000/000", "/tile/entries/000", "/tile/entries/000.p/256", "/tile/", "/tile/x/000"} {
		n.problem(n.get(path), entry.NotFound, http.StatusNotFound)
	}
}

// An entry never changes and may be cached for ever; so may proofs between two
// sizes and tiles. The published head may be for a moment, nothing else at all.
func TestCaching(t *testing.T) {
	n := start(t, nil)
	const forever = "public, max-age=31536000, immutable"
	for path, want := range map[string]string{
		"/v1/entries/1": forever, "/v1/consistency/1/3": forever, "/tile/0/000.p/3": forever, "/tile/entries/000.p/3": forever,
		"/checkpoint": "public, max-age=1",
		"/v1/log":     "no-store", "/v1/entries": "no-store", "/v1/entries/1/receipt": "no-store", "/v1/agents": "no-cache", "/healthz": "no-store",
		"/v1/entries/99": "no-store", "/tile/0/000.p/200": "no-store", "/metrics": "no-store",
	} {
		if got := n.get(path).Header.Get("Cache-Control"); got != want {
			t.Errorf("GET %s: Cache-Control %q, want %q", path, got, want)
		}
	}
	first := n.get("/checkpoint")
	request := n.request(http.MethodGet, "/checkpoint", "", nil)
	request.Header.Set("If-None-Match", first.Header.Get("ETag"))
	if again := n.do(request); again.StatusCode != http.StatusNotModified || len(again.body) > 0 {
		t.Fatalf("asked again: %s", again.Status)
	}
}

// The published head and every tile are what the ledger has, byte for byte.
func TestTiles(t *testing.T) {
	n := start(t, nil)
	var batch []*entry.Entry
	for range 520 {
		batch = append(batch, n.good())
	}
	if _, problem := n.readBatchAnswer(n.post(api.MediaNDJSON, batchOf(batch...)), batch); problem != nil {
		t.Fatal(problem)
	}
	size := n.log.Head().Size
	a := n.get("/checkpoint")
	published, err := n.log.Published()
	must(t, err)
	if string(a.body) != published.Note || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("checkpoint %s: %s", a.Header.Get("Content-Type"), a.body)
	}
	for _, tile := range []merkle.Tile{
		{Level: 0, Index: 0, Width: 256}, {Level: 0, Index: 1, Width: 256}, {Level: 0, Index: 2, Width: int(size - 512)},
		{Level: 0, Index: 0, Width: 17}, {Level: 1, Index: 0, Width: 2},
		{Entries: true, Index: 0, Width: 256}, {Entries: true, Index: 2, Width: int(size - 512)},
	} {
		want, err := n.log.Tile(tile)
		must(t, err)
		a := n.get("/" + tile.Path())
		if !bytes.Equal(a.body, want) || a.Header.Get("Content-Type") != api.MediaTile {
			t.Fatalf("%s: %s, %d bytes, want %d", tile.Path(), a.Status, len(a.body), len(want))
		}
	}
	n.checkBundle(0)
}

// checkBundle reads a full bundle compressed and hashes its leaves into the
// tile above it.
func (n *node) checkBundle(index uint64) {
	n.t.Helper()
	request := n.request(http.MethodGet, "/"+merkle.Tile{Entries: true, Index: index, Width: 256}.Path(), "", nil)
	request.Header.Set("Accept-Encoding", "gzip, identity")
	a := n.do(request)
	if a.Header.Get("Content-Encoding") != "gzip" || a.Header.Get("Vary") != "Accept-Encoding" {
		n.t.Fatalf("Content-Encoding %q, Vary %q", a.Header.Get("Content-Encoding"), a.Header.Get("Vary"))
	}
	unzip, err := gzip.NewReader(bytes.NewReader(a.body))
	must(n.t, err)
	bundle, err := io.ReadAll(unzip)
	must(n.t, err)
	tile := n.get("/" + merkle.Tile{Index: index, Width: 256}.Path()).body
	for i := range 256 {
		length := int(binary.BigEndian.Uint16(bundle))
		hash := merkle.HashLeaf(bundle[2 : 2+length])
		if !bytes.Equal(hash[:], tile[i*merkle.HashSize:(i+1)*merkle.HashSize]) {
			n.t.Fatalf("leaf %d does not hash to its place in the tile", i)
		}
		bundle = bundle[2+length:]
	}
	if len(bundle) > 0 {
		n.t.Fatalf("%d bytes behind the last leaf", len(bundle))
	}
}

// Consistency between every two sizes of a small log verifies.
func TestConsistency(t *testing.T) {
	n := start(t, nil)
	n.register(n.good(), n.good(), n.good(), n.good())
	var leaves []merkle.Hash
	for e, err := range n.log.Entries(t.Context(), 0, n.log.Head().Size) {
		must(t, err)
		leaves = append(leaves, merkle.HashLeaf(e.AppendLeaf(nil)))
	}
	for newer := range len(leaves) + 1 {
		for older := range newer + 1 {
			proof := value[verify.Consistency](n, fmt.Sprintf("/v1/consistency/%d/%d", older, newer))
			must(t, merkle.CheckConsistency(merkle.HeadOf(leaves[:older]), merkle.HeadOf(leaves[:newer]), proof.Path))
		}
	}
}

// The log's name, keys and size, and the committed principals with their keys.
func TestLogAndAgents(t *testing.T) {
	n := start(t, nil)
	second := newSigner(t)
	rotate := n.enrolment("team/agent-2", newSigner(t), entry.RoleAgent)
	rotate.Op = entry.Rotate
	n.register(n.enrol("team/agent-2", second, entry.RoleAgent), sign(t, n.authority, rotate))
	log := value[api.Log](n, "/v1/log")
	if log.Origin != origin || !slices.Equal(log.VerifierKeys, n.keys.VerifierKeys[:]) || log.Size != n.log.Head().Size || log.Index != nil {
		t.Fatalf("log %+v", log)
	}
	agent := value[api.Agent](n, "/v1/agents/"+url.PathEscape("team/agent-2"))
	if agent.Principal != "team/agent-2" || agent.Enrolled != 3 || len(agent.Keys) != 2 || agent.Keys[0].KeyID != second.Public().KeyID() ||
		agent.Keys[0].Revoked == nil || *agent.Keys[0].Revoked != 4 || agent.Keys[1].Revoked != nil {
		t.Fatalf("agent %+v", agent)
	}
	var names []string
	for path := "/v1/agents?limit=1"; path != ""; {
		page := value[api.Agents](n, path)
		for _, a := range page.Agents {
			names = append(names, string(a.Principal))
		}
		path = page.Next
	}
	if got := strings.Join(names, " "); got != "agent-1 monitor-1 team/agent-2" {
		t.Fatalf("agents %s", got)
	}
}

// HEAD is answered like GET, without a body.
func TestHead(t *testing.T) {
	n := start(t, nil)
	for _, path := range []string{"/v1/log", "/checkpoint", "/v1/entries/1", "/tile/0/000.p/3", "/tile/entries/000.p/1", "/healthz"} {
		get, head := n.get(path), n.do(n.request(http.MethodHead, path, "", nil))
		if head.StatusCode != get.StatusCode || len(head.body) > 0 || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
			t.Errorf("HEAD %s: %s %q, %d bytes", path, head.Status, head.Header.Get("Content-Type"), len(head.body))
		}
	}
	if a := n.do(n.request(http.MethodHead, "/v1/events", "", nil)); a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != api.MediaEvents {
		t.Errorf("HEAD of events: %s %v", a.Status, a.Header)
	}
}

// A method or a Content-Type that a path does not take is a problem too.
func TestMethodsAndMediaTypes(t *testing.T) {
	n := start(t, nil)
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		a := n.do(n.request(method, "/v1/entries", api.MediaJSON, nil))
		n.problem(a, "", http.StatusMethodNotAllowed)
		if allow := a.Header.Get("Allow"); !strings.Contains(allow, "GET") || !strings.Contains(allow, "POST") {
			t.Errorf("Allow %q", allow)
		}
	}
	for _, mediaType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json, application/json", "/"} {
		n.problem(n.post(mediaType, n.good().AppendEnvelope(nil)), "", http.StatusUnsupportedMediaType)
	}
	zipped := n.request(http.MethodPost, "/v1/entries", api.MediaJSON, n.good().AppendEnvelope(nil))
	zipped.Header.Set("Content-Encoding", "gzip")
	n.problem(n.do(zipped), "", http.StatusUnsupportedMediaType)
	n.receipt(n.post("application/vnd.dsse.envelope.v1+json", n.good().AppendEnvelope(nil)), http.StatusCreated)
}
