package api_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// queries are the queries of all routes.
func queries() (names []string, all []func() api.Query) {
	for _, route := range api.Routes() {
		if route.Query != nil {
			names, all = append(names, route.Name), append(all, route.Query)
		}
	}
	return names, all
}

// FuzzQuery looks for queries that are understood in two ways: what is accepted,
// written and read again is the same; what is refused is refused as malformed, with a
// detail.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "kind=signal&newest=true", "agent=a%2Fb&workflow=w&task=a%23t&incident=7", "since=1&until=2&from=3&before=4&limit=5",
		"limit=0", "knid=signal", "kind=signal&kind=signal", "kind=signal,decision", "kind=signal,", "kind=run,run", "%zz", "agent=%00", "from=18446744073709551615",
		"from=00", ";", "state=open&agent=a%2Fb&workflow=w&before=7&limit=5", "state=lost", "state=FAILED", "state=", "limit=1001", "before=-1", "before=0",
		"preview=true&dismissed=3,4", "dismissed=3", "before=1&after=2", "after=0", "agent=a&from=1&after=2&whole=true&limit=3", "wait=25000", "wait=25001",
		"links=true", "links=maybe", "agent="} {
		f.Add(seed)
	}
	names, all := queries()
	f.Fuzz(func(t *testing.T, raw string) {
		for i, empty := range all {
			q := empty()
			if err := api.ParseQuery(q, raw); err != nil {
				if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.Malformed || refusal.Detail == "" {
					t.Fatalf("%s: refused with %v", names[i], err)
				}
				continue
			}
			_, query, _ := strings.Cut(api.URL("/", q), "?")
			again := empty()
			if err := api.ParseQuery(again, query); err != nil || !reflect.DeepEqual(q, again) {
				t.Fatalf("%s: %q is %+v, written %q, read %+v, %v", names[i], raw, q, query, again, err)
			}
			if list, ok := q.(*api.ListQuery); ok {
				for _, tag := range list.Tags() {
					if strings.ContainsAny(tag.Value, "\x00\n") {
						t.Fatalf("tag %q", tag.Value)
					}
				}
			}
		}
	})
}

// A query that is refused names the parameter, what is wrong with it and what to write.
func TestParseQuery(t *testing.T) {
	for _, c := range []struct {
		q                          api.Query
		raw, field, detail, remedy string
	}{
		{new(api.ListQuery), "kinds=signal", "kinds", "this path has no parameter of this name", "did you mean kind?"},
		{new(api.ListQuery), "agnet=a", "agnet", "this path has no parameter of this name", "did you mean agent?"},
		{new(api.ReceiptQuery), "x=1", "x", "this path has no parameter of this name", "use links, witnessed, wait"},
		{new(api.ReceiptQuery), "wait=5", "wait", "needs witnessed=true: the server waits only for cosignatures", ""},
		{new(api.GraphQuery), "x=1", "x", "this path has no parameter of this name", "use before, limit"},
		{new(api.GraphQuery), strings.Repeat("k", 1000) + "=1", "", "this path has no parameter of this name", "use before, limit"},
		{nil, "x=1", "x", "this path has no parameter of this name", "this path takes no parameters"},
		{new(api.GraphQuery), "limit=1&limit=1", "limit", "given 2 times", ""},
		{new(api.GraphQuery), "limit=0", "limit", `"0" is not a number from 1 to 1000`, ""},
		{new(api.HistoryQuery), "before=x", "before", `"x" is not a number from 0 to 9007199254740991`, ""},
		{new(api.BundleQuery), "from=1", "agent", "agent is required", ""},
		{new(api.BundleQuery), "agent=", "agent", "agent is required", ""},
		{new(api.PlanQuery), "dismissed=4", "dismissed", "needs preview=true: only a preview leaves signals out", ""},
		{new(api.HistoryQuery), "before=1&after=0", "after", "before reads a history backwards, and after reads it forward: pass one of them", ""},
	} {
		refusal, _ := errors.AsType[*entry.Refusal](api.ParseQuery(c.q, c.raw))
		if refusal == nil || refusal.Problem != entry.Malformed || refusal.Field != c.field || refusal.Detail != c.detail || refusal.Remedy != c.remedy {
			t.Errorf("%.40s: %+v", c.raw, refusal)
		}
	}
}

// Every parameter of a path stands in the table, in its order, and URL puts it in.
func TestRoutes(t *testing.T) {
	names, paths := map[string]bool{}, map[string]bool{}
	for _, route := range api.Routes() {
		if at := route.Method + " " + route.Path; names[route.Name] || paths[at] {
			t.Errorf("route %s, %s is there twice", route.Name, at)
		}
		names[route.Name], paths[route.Method+" "+route.Path] = true, true
		var examples []any
		want := route.Path
		for _, p := range route.Params {
			if p.In == "path" {
				examples, want = append(examples, "a/b#"+p.Name), strings.Replace(want, "{"+p.Name+"}", "a%2Fb%23"+p.Name, 1)
			}
		}
		if got := api.URL(route.Path, nil, examples...); got != want || strings.Contains(got, "{") {
			t.Errorf("%s is %s, want %s", route.Path, got, want)
		}
	}
	if got := api.URL(api.PathGraph, &api.GraphQuery{Before: 7, Limit: 2}, "flow/1"); got != "/v1/workflows/flow%2F1/graph?before=7&limit=2" {
		t.Error(got)
	}
}
