package node

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	cosign "github.com/transparency-dev/formats/note"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// bootTime is the time limit of the question to the witnesses before a ledger signs anything.
const bootTime = 2 * time.Second

// Witnessing describes how the ledger asks the witnesses of the policy in force.
type Witnessing struct {
	URLs    map[string]string // submission prefixes by witness name; they override the URLs of the policy
	Every   time.Duration     // shortest time between two rounds that no caller waits for
	Require bool              // whether a ledger starts only with the answers of a quorum
}

// Rounds returns the rounds in which witnesses cosign the ledger's heads. If the ledger has
// entries, Rounds first asks the witnesses for the heads that they have cosigned. A witness that
// knows more entries than the ledger, or other entries, shows that the directory was restored from
// an old copy. The error is then a [*witness.ConflictError].
func (n *Node) Rounds(ctx context.Context, w Witnessing) (*witness.Rounds, error) {
	root, err := n.Root()
	if err != nil {
		return nil, err
	}
	root.Cosigner = cosign.NewVerifierForCosignatureV1
	chain := func() *verify.Chain { return n.Replica.View().Chain }
	now := func() verify.Root { return root.Follow(chain()) }
	reach := func() error { return nil }
	if n.Reach != nil {
		reach = func() error { return n.Reach(ctx) }
	}
	rounds, err := witness.NewRounds(witness.RoundsConfig{
		Reach:  reach,
		Source: witnessed{n.Log}, Root: now, Terms: witness.TermsOf(chain, time.Now), URLs: w.URLs, Every: w.Every,
		Path: filepath.Join(n.Dir, "witnessed"), Logger: n.Logger, Aligned: witnessed{n.Log}.Aligned,
	})
	if _, lost := errors.AsType[*witness.ConflictError](err); lost {
		return nil, n.conflicts(err)
	}
	if err != nil {
		return nil, exit.With(exit.IO, err)
	}
	boot, over := context.WithTimeout(ctx, bootTime)
	defer over()
	switch quorum, err := rounds.Boot(boot); {
	case err != nil:
		return nil, n.conflicts(err)
	case !quorum && w.Require:
		return nil, exit.Remedied("see which witnesses answer, or start with --witness-boot try",
			exit.With(exit.Unavailable, errors.New("no quorum of the witnesses that the policy names has cosigned the ledger's newest tree head")))
	case !quorum:
		n.Logger.Warn("the witnesses have not cosigned the newest tree head yet: agents obey no decision until they have", "size", n.Log.Head().Size)
	}
	return rounds, nil
}

// Witness collects cosignatures until ctx ends. An error says that a witness has cosigned another
// history of this ledger. The ledger then signs nothing more.
func (n *Node) Witness(ctx context.Context, rounds *witness.Rounds) error {
	err := rounds.Run(ctx)
	if err != nil {
		n.Log.Halt()
		n.Logger.Error("NOTHING MORE IS REGISTERED: the witnesses know another history of this log", "error", err.Error())
	}
	return n.conflicts(err)
}

// conflicts adds the remedy to a conflict with a witness.
func (n *Node) conflicts(err error) error {
	conflict, ok := errors.AsType[*witness.ConflictError](err)
	if !ok {
		return err
	}
	if conflict.Fork != nil {
		return exit.Contradicts("witnesses", conflict.Fork.Evidence(), err)
	}
	return exit.Remedied("restore a newer copy of "+n.Dir+" that has those entries; if there is none, give the ledger a new origin: arl ledger new-origin",
		exit.With(exit.Inconsistent, err))
}

// witnessed is the log in the form of [witness.Source].
type witnessed struct{ *ledger.Log }

// Newest implements [witness.Source].
func (w witnessed) Newest() verify.SignedHead { return w.Head().SignedHead }

// Aligned returns the head directly after the newest index entry, if that head has more entries
// than above.
func (w witnessed) Aligned(above uint64) (head verify.SignedHead, ok bool) {
	found, err := w.Find(ledger.Query{Index: entry.ByKind, Value: string(entry.KindIndex), From: above, Limit: 1, Newest: true})
	if err == nil && len(found) > 0 {
		head, err = w.SignedAt(found[0] + 1)
	}
	return head, head.Note != "" && err == nil
}
