package server_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/server"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
)

// indexed is the log as an index reads it.
type indexed struct{ *ledger.Log }

// IndexEntry implements [complete.Log].
func (l indexed) IndexEntry(from uint64) (*entry.Registered, error) {
	found, err := l.Find(ledger.Query{Index: entry.ByKind, Value: string(entry.KindIndex), From: from, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return l.Entry(found[0])
}

// startIndexed returns a node with an index, whose coordinator writes index entries.
func startIndexed(t *testing.T) (*node, *complete.Index) {
	t.Helper()
	coordinator := newSigner(t)
	n, index := indexedNode(t, "", coordinator.Sign, func(change func(*server.Config)) *node {
		n := start(t, change)
		n.register(n.enrol("coordinator", coordinator, entry.RoleCoordinator))
		return n
	})
	return n, index
}

// indexedNode has a node started with an index, for which a coordinator signs. The index lies in a
// directory, or in memory if that is empty.
func indexedNode(tb testing.TB, dir string, seal func(*entry.Entry) error, start func(change func(*server.Config)) *node) (n *node, index *complete.Index) {
	tb.Helper()
	fs := vfs.Default
	if dir == "" {
		fs = vfs.NewMem()
	}
	n = start(func(c *server.Config) {
		index = complete.New(cmp.Or(dir, "index"), complete.Config{Log: indexed{c.Log}, HeadAt: c.Log.HeadAt, FS: fs, Submit: func(ctx context.Context, x *entry.LogIndex) error {
			own := *x
			own.Header = n.header("coordinator", "")
			own.JTI = entry.IndexJTI(origin, x.Size)
			e, err := entry.New(&own)
			if err == nil {
				err = seal(e)
			}
			if err != nil {
				return err
			}
			answer, err := c.Log.Submit(ctx, append([]*entry.Entry{e}, n.rush()...)...)
			if err == nil && answer.Refused != nil {
				return answer.Refused
			}
			return err
		}})
		c.Index = index
	})
	n.followed.Store(index)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- index.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		must(tb, <-over)
	})
	return n, index
}

// rush returns as many entries as a busy log has behind each index entry, in one commit: no
// head is signed between.
func (n *node) rush() (entries []*entry.Entry) {
	for range n.busy.Load() {
		entries = append(entries, n.good())
	}
	return entries
}

// covered waits until the newest entry of the log is an index entry, which follows at
// once on an agent entry, and returns how many entries it covers.
func covered(t *testing.T, n *node, index *complete.Index) uint64 {
	t.Helper()
	for {
		size := n.log.Size()
		newest, err := n.log.Entry(size - 1)
		must(t, err)
		if newest.Kind != entry.KindIndex {
			must(t, n.log.Wait(t.Context(), size+1))
		} else if s := index.Status(); s.Entry == newest.Index && n.coord.View().Size > s.Entry {
			return s.Size
		}
		runtime.Gosched()
	}
}

// TestComplete asks the client for complete histories of subjects that are there and
// of one that is not, whole and in pages.
func TestComplete(t *testing.T) {
	n, index := startIndexed(t)
	for range 20 {
		n.register(n.good())
	}
	n.register(n.enrol("late", newSigner(t), entry.RoleAgent)) // which is covered at once
	size := covered(t, n, index)
	c, err := client.New(n.url, n.root(), nil)
	must(t, err)
	said, err := c.Log(t.Context())
	must(t, err)
	own := index.Status()
	if want := (api.IndexStatus{Size: size, Root: own.Root, Subjects: own.Subjects, Entry: size, Lag: 1}); said.Index == nil || *said.Index != want {
		t.Errorf("GET /v1/log says %+v of the index, want %+v", said.Index, want)
	}
	var got []string
	for _, q := range []api.CompleteQuery{
		{Type: entry.SubjectAgent, Value: "agent-1", Labels: []entry.Label{"execution", "agent/revoke<"}},
		{Type: entry.SubjectAgent, Value: "agent-1", Labels: []entry.Label{"execution"}, Limit: 7},
		{Type: entry.SubjectAgent, Value: "nobody"},
		{Type: entry.SubjectLog, Labels: []entry.Label{"policy"}},
		{Type: entry.SubjectIncident, Value: "7"},
	} {
		q.Size = size
		h, err := c.Complete(t.Context(), q)
		must(t, err)
		for i := range h.Report.Answers {
			a := &h.Report.Answers[i]
			got = append(got, fmt.Sprintf("%s: %d", a.Question.String(), len(a.Entries)))
		}
		if (h.History.Size < size) != (q.Limit == 7) {
			t.Errorf("%+v: ends at %d of %d", q, h.History.Size, size)
		}
	}
	want := []string{"execution of agent:agent-1: 20", "agent/revoke< of agent:agent-1: 0", "execution of agent:agent-1: 7",
		"entries of agent:nobody: 0", "policy of log: 1", "entries of incident:7: 0"}
	if !slices.Equal(got, want) {
		t.Errorf("answers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := c.Complete(t.Context(), api.CompleteQuery{Type: entry.SubjectAgent, Value: "agent-1"}); err != nil { // up to the head, with the tail
		t.Error(err)
	}
}

// TestCompleteTags: the entity tag of a history of some size stands while the log grows, and
// the log's newest size or another entry has another tag.
func TestCompleteTags(t *testing.T) {
	n, index := startIndexed(t)
	n.register(n.good())
	n.register(n.enrol("late", newSigner(t), entry.RoleAgent))
	size := covered(t, n, index)
	fixed, newest := fmt.Sprintf("/v1/complete/agent?value=agent-1&size=%d", size), "/v1/complete/agent?value=agent-1"
	tag := func(path string) string {
		a := n.get(path)
		if a.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		return a.Header.Get("ETag")
	}
	before, grows := tag(fixed), tag(newest)
	n.register(n.good())
	n.register(n.enrol("later", newSigner(t), entry.RoleAgent))
	covered(t, n, index)
	request := n.request(http.MethodGet, fixed, "", nil)
	request.Header.Set("If-None-Match", before)
	if again := n.do(request); again.StatusCode != http.StatusNotModified || before == "" || tag(newest) == grows {
		t.Errorf("after more entries: %d, tag %q, of the newest size %q and %q", again.StatusCode, before, grows, tag(newest))
	}
}

// TestCompleteOfABusyLog: more entries than a history shows beside its lists stand behind each
// index entry. A history without a size then ends right behind the index entry.
func TestCompleteOfABusyLog(t *testing.T) {
	n, index := startIndexed(t)
	covered(t, n, index)
	n.busy.Store(complete.TailMax + 100)
	n.register(n.enrol("late", newSigner(t), entry.RoleAgent))
	late := n.log.Size() - 1
	must(t, index.Wait(t.Context(), late))
	n.busy.Store(0)
	c, err := client.New(n.url, n.root(), nil)
	must(t, err)
	h, err := c.Complete(t.Context(), api.CompleteQuery{Type: entry.SubjectAgent, Value: "late"})
	must(t, err)
	if a := h.Report.Answers[0]; len(a.Entries) != 1 || n.log.Size() < h.History.Size+complete.TailMax {
		t.Errorf("%v, of a log of %d entries", &a, n.log.Size())
	}
}

// TestCompleteRefuses asks for what no log answers, and a ledger without an index.
func TestCompleteRefuses(t *testing.T) {
	n, index := startIndexed(t)
	covered(t, n, index)
	for _, path := range []string{"/v1/complete/team?value=x", "/v1/complete/agent", "/v1/complete/log?value=x", "/v1/complete/incident?value=007",
		"/v1/complete/agent?value=agent-1&labels=revoked", "/v1/complete/agent?value=agent-1&labels=,", "/v1/complete/agent?value=agent-1&size=1000",
		"/v1/complete/agent?value=agent-1&since=9&size=4", "/v1/complete/agent?value=agent-1&wait=5"} {
		n.problem(n.get(path), entry.Malformed, http.StatusBadRequest)
	}
	n.problem(n.get("/v1/complete/agent?value=agent-1&witnessed=true"), entry.NotReady, http.StatusServiceUnavailable)
	without := start(t, nil)
	without.problem(without.get("/v1/complete/log"), entry.NotFound, http.StatusNotFound)
}
