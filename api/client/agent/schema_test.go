package agent_test

import (
	"context"
	"os"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api/client/agent"
	"recoveryledger/testdata/schematest"
)

func schema(t *testing.T, name string) func(v any) error {
	t.Helper()
	text, err := os.ReadFile("schema/" + name + ".json")
	must(t, err)
	compiled := schematest.Compile(t, text)
	return func(v any) error {
		data, err := json.Marshal(v)
		must(t, err)
		return schematest.Check(compiled, data)
	}
}

// TestSchemas holds every call of a rollback, with crashes and a lost store, and
// every report to the schemas that programs are written by.
func TestSchemas(t *testing.T) {
	call, report := schema(t, "call"), schema(t, "report")
	seen := map[string]bool{}
	d := newDamage(t)
	for crash := 1; crash < 100; crash += 4 {
		b := d.clone()
		worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
		worker.change = func(c *agent.Config) {
			h := c.Hooks
			checked := func(f agent.Func) agent.Func {
				return func(ctx context.Context, c *agent.Call) (*agent.Report, error) {
					seen[string(c.Hook)+" "+string(c.Of)] = true
					if err := call(c); err != nil {
						t.Errorf("%+v: %v", c, err)
					}
					r, err := f(ctx, c)
					if r != nil && err == nil {
						if err := report(r); err != nil {
							t.Errorf("%+v: %v", r, err)
						}
					}
					return r, err
				}
			}
			c.Hooks = agent.Hooks{Drain: checked(h.Drain), Restore: checked(h.Restore), Compensate: checked(h.Compensate), Cancel: checked(h.Cancel), Probe: checked(h.Probe)}
		}
		f := &fuse{blow: []int{crash}}
		worker.desk.fault, worker.store.fault, worker.world.fault = f.at, f.at, f.at
		worker.open()
		play(t, b, b.now+100_000, func(p *player) bool {
			crashed := p == worker && f.crashed
			f.crashed = f.crashed && !crashed
			return crashed
		}, worker, writer)
	}
	for _, want := range []string{"drain ", "restore ", "compensate ", "cancel ", "probe drain", "probe restore", "probe compensate", "probe cancel"} {
		if !seen[want] {
			t.Errorf("no call of %q", want)
		}
	}
	for _, bad := range []agent.Report{{}, {Status: agent.Failed}, {Status: agent.Unknown, Digest: zero}, {Status: agent.Done, Progress: "planned"}} {
		if report(bad) == nil {
			t.Errorf("%+v is a report", bad)
		}
	}
}
