package cell

import (
	"context"
	"fmt"
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
func (s *Serving) judge(ctx context.Context, n *node.Node, others []*cluster.Shown) {
	own, err := s.show(0)
	if err != nil {
		return // it ends
	}
	if members, err := s.node.Members(ctx); err == nil { // else with the next round
		s.noteMembers(members)
		s.node.Roomless(s.rooms.Roomless(time.Now(), append(slices.Clone(others), own), members))
	}
	s.judgeFitness(ctx, peer.Fit(own, others, n.Replica.MaxStep()/2))
}

// judgeFitness has another node lead while this one should not.
func (s *Serving) judgeFitness(ctx context.Context, f peer.Fitness) {
	s.node.StepAside(f.Aside)
	unled := ""
	if f.Aside && f.Heir == "" && s.node.Leads() {
		unled = f.Why
	}
	s.node.Unled(unled)
	if news := f.Aside != s.judged.Aside || (f.Why == "") != (s.judged.Why == ""); news && f.Why != "" {
		s.logger.Warn("this node is not fit to lead, or may not be", "reason", f.Why, "aside", f.Aside, "heir", f.Heir)
	}
	s.judged = f
	if f.Heir == "" || !s.node.Leads() {
		return
	}
	s.logger.Warn("this node lets another one lead", "reason", f.Why, "to", f.Heir)
	if err := s.node.HandOver(ctx, f.Heir); err != nil {
		s.logger.Warn("the lead is not handed over", "to", f.Heir, "error", err.Error())
	}
}

// fit is [cluster.Config.Fit]: a node that begins to lead may not have been judged yet. A disk
// without room does not count here, since the log of the node refuses entries then.
func (s *Serving) fit(n *node.Node, others []*cluster.Shown) error {
	f := peer.Fit(&cluster.Shown{Room: true}, others, n.Replica.MaxStep()/2)
	if !f.Aside {
		return nil
	}
	s.logger.Warn("this node does not lead", "reason", f.Why, "heir", f.Heir)
	return fmt.Errorf("%s does not lead: %s", s.site.Name, f.Why)
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
