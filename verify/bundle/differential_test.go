package bundle_test

import (
	stdjson "encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/testdata/budget"
	"recoveryledger/verify/bundle"
)

// TestBundleDifferentialChaos has the second implementation judge random changes of
// good bundles: both must name the same rule, or the same commands.
func TestBundleDifferentialChaos(t *testing.T) {
	each := budget.Budget{Short: 1, Usual: 8, Chaos: 400}.Now()
	seed := budget.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	for _, c := range goodCases() {
		_, b, a, now := c.build(t)
		good, err := b.Encode()
		must(t, err)
		for i := range each {
			data := randomChange(t, random, good)
			v := newBundleVector(t, c.desc, a, now, data)
			text, err := stdjson.Marshal(v)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.json", c.name, i)), text, 0o600))
		}
	}
	last, ok := crossCheck(t, dir)
	if !ok || !strings.HasPrefix(last, fmt.Sprintf("%d vectors", each*len(goodCases()))) {
		t.Error(last)
	}
	t.Log(last)
}

// randomChange changes one or two values behind what is proven together: the
// proofs would refuse everything else.
func randomChange(t *testing.T, random *rand.Rand, good []byte) []byte {
	t.Helper()
	var value any
	must(t, json.Unmarshal(good, &value))
	for range 1 + random.IntN(2) {
		var nodes []node
		walk("", value, nil, nil, func(n node) {
			if n.set != nil && !strings.HasPrefix(n.path, "/entries") && !strings.HasPrefix(n.path, "/inclusion") {
				nodes = append(nodes, n)
			}
		})
		n := nodes[random.IntN(len(nodes))]
		list := variants(n.value)
		switch {
		case len(list) > 0 && random.IntN(8) > 0:
			n.set(list[random.IntN(len(list))])
		case n.drop != nil:
			n.drop()
		}
	}
	data, err := json.Marshal(value, json.Deterministic(true))
	must(t, err)
	b := new(bundle.Bundle)
	if json.Unmarshal(data, b) != nil { // of other types: as it is
		return data
	}
	written, err := json.Marshal(b)
	must(t, err)
	return written
}
