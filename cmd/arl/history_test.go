package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Every line of a history names its entries, and each of them is there, with a
// proof that leads to the signed head, also of a stopped ledger.
func TestAgentHistoryIsProven(t *testing.T) {
	l := startCommandLine(t)
	l.stop()
	h := corrupt(t, l)
	id := h.incident()
	h.honest(node.Coordinator, h.draft(id, entry.ActAuthorize))
	r, err := h.state.DraftRecord(id)
	h.must(err)
	h.honest(node.Coordinator, r)
	h.stop()

	out := l.exits(exit.OK, "agent", "history", "a", "--data", h.node.Dir, "--output", "json")
	var got api.History
	_, object, _ := strings.Cut(out, "{")
	h.must(json.Unmarshal([]byte("{"+object), &got))
	if got.Judged != 1 || got.SelfReported != 1 || len(got.Signals) != 1 || len(got.Memberships) != 1 || got.Memberships[0].Result != entry.NotExecuted {
		t.Errorf("%+v", got)
	}
	var known trust.Profile
	l.readProfile(&known)
	head, err := trust.WithCosigner(known.Root).Head([]byte(got.Head))
	h.must(err)
	proven := map[uint64]entry.Kind{}
	for _, item := range got.Entries {
		receipt, err := item.Receipt(got.Head)
		h.must(err)
		h.must(merkle.CheckInclusion(item.Index, merkle.HashLeaf(receipt.Leaf), head, item.Proof))
		e, _, err := entry.DecodeLeaf(receipt.Leaf)
		h.must(err)
		proven[item.Index] = e.Kind
	}
	for _, index := range got.Proof(nil) {
		if proven[index] == "" {
			t.Errorf("entry %d is named and not proven", index)
		}
	}
	if len(proven) != 3 || proven[got.Signals[0].Disposed] != entry.KindRecord || proven[got.Memberships[0].Decision] != entry.KindDecision {
		t.Errorf("%v", proven)
	}
	if v, ok := h.state.Incident(id, 0); !ok || v.State != entry.IncidentNoEffects {
		t.Errorf("%+v", v)
	}
}
