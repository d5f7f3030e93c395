package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// TestRollouts reads a rollout and the list of them. What a server says of another rollout is
// malformed.
func TestRollouts(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	if all, err := c.Rollouts(t.Context()); err != nil || all.Current != nil || len(all.History) > 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	first, err := n.log.Receipt(0)
	must(t, err)
	rules := entry.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: n.authority.Public()})
	rules.Header, rules.Previous, rules.Recovery = header("authority", ""), &entry.LogRef{LeafHash: merkle.HashLeaf(first.Leaf)}, recovery.Default().JSON()
	n.put(n.authority, rules)
	candidate := jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))
	operator := n.staff("olga", entry.RoleOperator)
	n.put(operator, &entry.Rollout{Header: header("olga", "one"), Rollout: "one", Op: entry.RolloutStart, Stage: entry.StageShadow, Reason: "test",
		Start: &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(candidate), BaselineDigest: recovery.Default().Hash(), Candidate: candidate, Salt: "s",
			Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: time.Now().Add(time.Hour).UnixMilli()}})
	one, err := c.Rollout(t.Context(), "one")
	must(t, err)
	all, err := c.Rollouts(t.Context())
	must(t, err)
	if one.Current == nil || all.Current == nil || one.Current.Rollout != "one" || all.Current.CandidateDigest != one.Current.CandidateDigest {
		t.Errorf("%+v %+v", one, all)
	}
	_, err = c.Rollout(t.Context(), "none")
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Name() != entry.NotFound {
		t.Errorf("error %v", err)
	}
	swap := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path, r.RequestURI = strings.Replace(r.URL.Path, "two", "one", 1), strings.Replace(r.RequestURI, "two", "one", 1)
		n.handler.ServeHTTP(w, r)
	})
	n.front.Store(&swap)
	if _, err := c.Rollout(t.Context(), "two"); !errors.Is(err, client.ErrMalformed) {
		t.Errorf("another rollout: %v", err)
	}
}
