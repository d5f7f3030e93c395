package cell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/needs"
)

// An incident is reported every so many faults, and less often where that would be too many. The
// genesis policy allows 50 in all.
const (
	incidentEvery = 8
	incidentsMost = 40
)

// undoing notes each compensation that it is asked for.
const undoing = `call=$(cat); printf '%s\n' "$call" | sed 's/.*"key":"\([^"]*\)".*/\1/' >> "$1"; echo '{"status":"done"}'`

// rolledBack is an agent with effects, which are rolled back while the nodes suffer.
type rolledBack struct {
	client   *client.Client
	said     *lines
	reported []string
}

// listens has the agent obey the ledger until the test ends.
func (r *rolledBack) listens(c *campaign) {
	c.m.arl("agent", "listen", "--key", "agent.key", "--url", c.urls(0), "--init")
	cmd := c.m.Command("agent", "listen", "--key", "agent.key", "--url", c.urls(0), "--output", "json", "--attempts", "1000",
		"--hooks", "compensate", "--exec", "sh", "--", "-c", undoing, "undo", c.m.Path("compensated"))
	r.said = &lines{}
	cmd.Stdout, cmd.Stderr = r.said, r.said
	must(c.t, cmd.Start())
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
}

// reports registers an effect, and that it was wrong.
func (r *rolledBack) reports(c *campaign, id string) {
	c.t.Helper()
	flow := entry.WorkflowID("flow-" + id)
	header := func() entry.Header {
		h := keys.NewHeader("my-agent", c.root.Origin)
		h.Wid = flow
		return h
	}
	submit := func(body entry.Body) {
		e, err := entry.New(body)
		must(c.t, err)
		must(c.t, c.signer.Sign(e))
		_, err = r.client.Submit(c.t.Context(), e)
		must(c.t, err)
	}
	x := &entry.Execution{Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectCompensable, IdempotencyKey: entry.Digest("sha256:" + strings.Repeat("0", 64))}
	for _, x.Progress = range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		x.Header = header()
		submit(x)
	}
	submit(&entry.Signal{Header: header(), Subject: x.Ref(), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()})
	r.reported = append(r.reported, id)
}

// ends waits until every incident is over. Each effect was undone once.
func (r *rolledBack) ends(c *campaign) {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // it is asked again
		var page struct{ Incidents []json.RawMessage }
		status, body := c.nodes[0].get("/v1/incidents?state=RECOVERED&limit=100")
		if status == 200 && json.Unmarshal([]byte(body), &page) == nil && len(page.Incidents) == len(r.reported) {
			break
		}
		if time.Since(began) > time.Minute {
			c.t.Fatalf("%d of %d incidents have ended within a minute: %.2000s\n%s", len(page.Incidents), len(r.reported), body, r.said)
		}
	}
	text, err := os.ReadFile(c.m.Path("compensated"))
	if err != nil && len(r.reported) > 0 {
		c.t.Fatal(err)
	}
	undone := strings.Fields(string(text))
	slices.Sort(undone)
	if once := slices.Compact(slices.Clone(undone)); len(once) != len(undone) || len(once) != len(r.reported) {
		c.t.Fatalf("%d effects were undone %d times: %q", len(r.reported), len(undone), undone)
	}
}

// decidedOnce wants the coordinator, which is that of the leader, to have written each decision and
// each record once, through every change of the leader.
func (r *rolledBack) decidedOnce(c *campaign) {
	c.t.Helper()
	written := map[string]int{}
	for line := range strings.Lines(c.m.arl("entry", "list", "--kind", "decision,record", "--limit", "0", "--output", "json", "--url", c.urls(0))) {
		var listed struct {
			Payload struct {
				Incident, Epoch uint64
				Act             string // empty: a record
			}
		}
		must(c.t, json.Unmarshal([]byte(line), &listed))
		written[fmt.Sprintf("%+v", listed.Payload)]++
	}
	for what, times := range written {
		if times != 1 {
			c.t.Errorf("the coordinator wrote %s %d times", what, times)
		}
	}
	if len(written) < 2*len(r.reported) {
		c.t.Errorf("%d decisions and records of %d incidents: %v", len(written), len(r.reported), written)
	}
}

// clockVariable names a file that says by how much the clock of a node is ahead.
const clockVariable = "TEST_CLOCK"

// skewedSource is a file more of the program, which reads its clock there.
const skewedSource = `package main

import (
	"os"
	"strings"
	"time"

	"recoveryledger/cmd/arl/node"
)

func init() {
	node.WallClock = func() time.Time {
		text, _ := os.ReadFile(os.Getenv("` + clockVariable + `"))
		off, _ := time.ParseDuration(strings.TrimSpace(string(text)))
		return time.Now().Add(off)
	}
}
`

// buildSkewed builds the program with a clock that a file moves.
func buildSkewed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, overlay, arl := filepath.Join(dir, "skewed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "arl")
	must(t, os.WriteFile(source, []byte(skewedSource), 0o600))
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(needs.Root(), "cmd", "arl", "skewed.go"): source}})
	must(t, err)
	must(t, os.WriteFile(overlay, files, 0o600))
	// Without symbols the program is linked sooner.
	cmd := needs.Go(t.Context(), "build", "-ldflags", "-s -w", "-overlay", overlay, "-o", arl, "./cmd/arl")
	cmd.Dir = needs.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return arl
}

// misleads sets the clock of a node to another time for a while, up to three minutes away.
func (c *campaign) misleads(n *node) string {
	off := time.Duration(c.random.IntN(360_000)-180_000) * time.Millisecond
	file := c.m.Path(n.data + ".clock")
	must(c.t, os.WriteFile(file, []byte(off.String()), 0o600))
	time.Sleep(c.while()) // that is the fault
	must(c.t, os.Remove(file))
	return fmt.Sprintf("by minutes: %t", off.Abs() > time.Minute)
}
