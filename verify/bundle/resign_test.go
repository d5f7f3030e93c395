package bundle_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// free are the members of payloads of which whoever signs them may choose
// another value without any rule of AGT-1 to AGT-3 taking notice: identities,
// texts, times and counts within bounds, and what only the whole log can judge.
var free = map[string][]string{
	"decision":      {"approvals", "impact/agents", "impact/domains", "impact/irrevocable", "impact/undeclared", "deadline_at", "exp", "iat", "jti", "reason"},
	"proposal":      {"impact/agents", "impact/domains", "impact/irrevocable", "impact/members", "impact/undeclared", "exp", "iat", "jti", "policy/index", "policy/leaf_hash", "reason", "wid"},
	"anna approves": {"exp", "iat", "jti", "reason", "wid"},
	"signal":        {"class", "code", "iat", "jti", "observed_at"},
	"worker#c0":     {"digest", "iat", "jti"},
	"worker#draft":  {"iat", "jti"},
	"source#read":   {"iat", "jti", "wid"},
	"charged back":  {"comp_exec", "iat", "jti", "observed_at", "wid"},
}

// TestBundleEveryMember has every member of the payloads changed by who signs
// them, and everything that follows from it made anew: all but the free ones
// are refused.
// Draft: AGT-0a.
func TestBundleEveryMember(t *testing.T) {
	for name, may := range free {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused, passed := map[string]bool{}, map[string]bool{}
			for _, path := range membersOf(t, name) {
				for variant := range 10 {
					got, done := changedMember(t, name, path, variant)
					if done {
						break
					}
					if got == "" {
						passed[path] = true
					} else if got != "-" {
						refused[path] = true
					}
				}
			}
			for path := range passed {
				if !slices.Contains(may, path) {
					t.Errorf("%s may be anything", path)
				}
			}
			for _, path := range may {
				if !passed[path] {
					t.Errorf("%s does count", path)
				}
			}
			if len(refused) == 0 {
				t.Error("nothing counts")
			}
		})
	}
}

// payloadTree returns the payload of an entry as a tree.
func payloadTree(tb testing.TB, body entry.Body) map[string]any {
	tb.Helper()
	e, err := entry.New(body)
	must(tb, err)
	var tree map[string]any
	must(tb, json.Unmarshal(e.Payload(), &tree))
	return tree
}

// membersOf lists the members of an entry's payload that are not objects.
func membersOf(t *testing.T, name string) (paths []string) {
	t.Helper()
	approved(t, func(w *world) {
		w.hooks[name] = func(body entry.Body) {
			walk("", payloadTree(t, body), nil, nil, func(n node) {
				if _, object := n.value.(map[string]any); !object {
					paths = append(paths, strings.TrimPrefix(n.path, "/"))
				}
			})
		}
	})
	return paths
}

// changedMember changes a member of an entry in one of the ways that there are
// and returns what refuses the bundle, or "-" if no such entry is well-formed;
// done says that there is no such way.
func changedMember(t *testing.T, name, path string, variant int) (got string, done bool) {
	t.Helper()
	malformed := false
	w, b := approved(t, func(w *world) {
		w.hooks[name] = func(body entry.Body) {
			tree := payloadTree(t, body)
			done = true
			walk("", tree, nil, nil, func(n node) {
				list := append(reasonable(n.value), variants(n.value)...)
				if strings.TrimPrefix(n.path, "/") == path && variant < len(list) && done {
					done, malformed = false, reflect.DeepEqual(n.value, list[variant])
					n.set(list[variant])
				}
			})
			data, err := json.Marshal(tree)
			must(t, err)
			value := reflect.ValueOf(body).Elem()
			again := reflect.New(value.Type())
			err = json.Unmarshal(data, again.Interface())
			if err == nil {
				_, err = entry.NewRaw(body.Kind(), data)
			}
			if malformed = malformed || err != nil; !malformed {
				value.Set(again.Elem())
			}
		}
	})
	if done || malformed {
		return "-", done
	}
	v, err := b.Check(w.state(), w.now)
	return outcomeOf(v, err, ""), false
}

// reasonable returns other values that are well-formed.
func reasonable(value any) []any {
	if text, ok := value.(string); ok {
		return []any{strings.Replace(text, "0", "7", 1), strings.Replace(text, "worker", "writer", 1)}
	}
	return nil
}
