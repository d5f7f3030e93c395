package cell

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/cmd/arl/node"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/peer"
	"recoveryledger/ledger/durable"
)

// judge notes the nodes of the cluster, and says what follows from what they have shown: whether
// entries are taken, and who should lead.
func (s *Serving) judge(ctx context.Context, n *node.Node, others []*cluster.Shown, ahead []time.Duration) {
	own, err := s.show(0)
	if err != nil {
		return // it ends
	}
	if members, err := s.node.Members(ctx); err == nil { // else with the next round
		s.noteMembers(members)
		s.node.Roomless(s.rooms.Roomless(time.Now(), append(slices.Clone(others), own), members))
	}
	s.judgeFitness(ctx, n, own, others, ahead)
}

// judgeFitness has another node lead while this one should not.
func (s *Serving) judgeFitness(ctx context.Context, n *node.Node, own *cluster.Shown, others []*cluster.Shown, ahead []time.Duration) {
	reason, heir := peer.Unfit(own, others, ahead, n.Replica.MaxStep()/2)
	s.node.StepAside(reason != "")
	if reason == "" || !s.node.Leads() {
		return
	}
	s.logger.Warn("this node lets another one lead", "reason", reason, "to", heir)
	if err := s.node.HandOver(ctx, heir); err != nil {
		s.logger.Warn("the lead is not handed over", "to", heir, "error", err.Error())
	}
}

// noteMembers keeps the nodes that this one knows in a file, for a reseed.
func (s *Serving) noteMembers(members []cluster.Member) {
	if len(members) == 0 {
		return // they are noted in the next round
	}
	noted := make([]known, len(members))
	for i := range members {
		noted[i] = known{members[i].Name, members[i].Peer}
	}
	if slices.Equal(noted, s.noted) {
		return
	}
	text, err := json.Marshal(noted)
	if err == nil {
		err = durable.Write(s.site.MembersFile(), append(text, '\n'), 0o600)
	}
	if err != nil {
		s.logger.Warn("the nodes of the cluster are not noted", "error", err.Error())
		return
	}
	s.noted = noted
}
