package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Verify does the steps of the package comment on all of the material. The
// error is a [*StepError], a [*ForkError] or, if there is nothing to verify or
// the root is malformed, a [*FormatError]; the report then is empty.
func (r Root) Verify(m Material) (Report, error) {
	o, err := NewOpener(r)
	if err != nil {
		return Report{}, err
	}
	v := &run{Opener: o, opened: map[string]head{}, count: map[Step]int{}}
	for _, step := range []func(Material) error{v.heads, v.consistency, v.witnesses, v.entries, v.rights, v.ledgerKeys, v.histories, v.evidence} {
		if err := step(m); err != nil {
			return Report{}, err
		}
	}
	return v.report(&m), nil
}

// run is one verification.
type run struct {
	*Opener
	opened map[string]head // by its note
	out    Report
	count  map[Step]int
	bySize map[uint64]head
	seen   *head // the head that the root carries; nil: none
	// joined are the sizes of the heads that proofs connect with the newest. What
	// stands under another head may be of another history.
	joined   map[uint64]bool
	older    map[uint64][]uint64 // sizes of heads that a proof shows to be prefixes of a larger size
	cosigned string              // witnesses of the head, if the quorum is complete
	proven   []proven
	chain    *Chain // of the entries under joined heads
}

// proven is an entry that is in the log, with the head that proves it.
type proven struct {
	Entry
	hash merkle.Hash
	head head
}

func (v *run) notChecked(format string, args ...any) {
	v.out.NotChecked = append(v.out.NotChecked, fmt.Sprintf(format, args...))
}

func (v *run) missing(step Step, give, format string, args ...any) {
	v.out.Missing = append(v.out.Missing, Gap{step, fmt.Sprintf(format, args...), give})
}

// heads opens every tree head of the material (step 1).
func (v *run) heads(m Material) error {
	notes := slices.Clone(m.Heads)
	for _, r := range slices.Concat(m.Receipts, m.Proofs) {
		notes = append(notes, r.Head)
	}
	for _, h := range m.Histories {
		notes = append(notes, h.Head)
	}
	if len(notes) == 0 {
		return Malformed("material", "nothing to verify").WithRemedy("give a receipt, a .tlog-proof with its leaf, a page of entries, or a tree head")
	}
	for _, signed := range notes {
		if _, ok := v.opened[signed]; ok {
			continue
		}
		h, err := v.open(signed)
		if err != nil {
			return err
		}
		v.opened[signed] = h
	}
	v.count[StepHead] = len(v.opened)
	if v.root.Seen == "" {
		return nil
	}
	seen, err := v.open(v.root.Seen)
	if err != nil {
		return fmt.Errorf("the tree head that was accepted before: %w", err)
	}
	v.seen = &seen
	return nil
}

// consistency compares the heads (step 2). A head counts as consistent with the
// newest if proofs lead from it to there: two heads that share only an older
// one could still be of a fork.
func (v *run) consistency(m Material) error {
	v.bySize = map[uint64]head{}
	for _, signed := range slices.Sorted(maps.Keys(v.opened)) {
		h := v.opened[signed]
		same, ok := v.bySize[h.Size]
		if !ok {
			v.bySize[h.Size] = h
			continue
		}
		if err := same.CheckFork(h.SignedHead); err != nil {
			return err
		}
	}
	if v.seen != nil {
		if same, ok := v.bySize[v.seen.Size]; ok {
			if err := v.seen.CheckFork(same.SignedHead); err != nil {
				return err
			}
		}
	}
	if err := v.forks(&m); err != nil {
		return err
	}
	v.older = map[uint64][]uint64{}
	for _, p := range m.Consistency {
		older, newer, ok := v.ends(p)
		if !ok {
			continue
		}
		if err := checkConsistency(older.SignedHead, newer.SignedHead, p.Path); err != nil {
			return err
		}
		v.older[p.New] = append(v.older[p.New], p.Old)
	}
	sizes := slices.Sorted(maps.Keys(v.bySize))
	newest := sizes[len(sizes)-1]
	v.joined = v.begins(newest)
	count := 0
	for _, h := range v.opened {
		if v.joined[h.Size] {
			count++
		}
	}
	if count > 1 { // the newest alone is compared with nothing
		v.count[StepConsistency] = count
	}
	for _, size := range sizes {
		v.out.Heads = append(v.out.Heads, v.bySize[size].Head)
		if !v.joined[size] {
			v.missing(StepConsistency, fmt.Sprintf("the consistency proof from size %d to size %d (arl log proof --from --to, or GET /v1/consistency/%[1]d/%[2]d)", size, newest),
				"that the log of size %d is the beginning of that of size %d", size, newest)
		}
	}
	return nil
}

// ends returns the heads that a proof is about, if both are given, or one by the root.
func (v *run) ends(p Consistency) (older, newer head, ok bool) {
	found := [2]head{}
	for i, size := range []uint64{p.Old, p.New} {
		h, there := v.bySize[size]
		if !there && v.seen != nil && v.seen.Size == size {
			h, there = *v.seen, true
		}
		if !there {
			v.missing(StepConsistency, fmt.Sprintf("a tree head of size %d", size),
				"that the proof from size %d to size %d is about this log", p.Old, p.New)
			return older, newer, false
		}
		found[i] = h
	}
	return found[0], found[1], true
}

// continues says whether the heads are known to be of one log with the head that the
// root carries: that it begins the newest, or the newest begins it.
func (v *run) continues() {
	if v.seen == nil {
		return
	}
	newest := slices.Max(slices.Collect(maps.Keys(v.bySize)))
	if !v.joined[v.seen.Size] && !v.begins(v.seen.Size)[newest] {
		v.notChecked("that the tree head of size %d is of one log with that of size %d, which was accepted before: a consistency proof between the two shows it", newest, v.seen.Size)
	}
}

// begins returns the sizes of heads that are known to be prefixes of the log of a size.
func (v *run) begins(size uint64) map[uint64]bool {
	reached := map[uint64]bool{size: true, 0: true} // the empty log, which opening it has compared, begins every log
	for todo := []uint64{size}; len(todo) > 0; todo = todo[1:] {
		for _, size := range v.older[todo[0]] {
			if !reached[size] {
				reached[size] = true
				todo = append(todo, size)
			}
		}
	}
	return reached
}

// witnesses holds the heads to the quorum that the root names: it has cosigned
// each, or one that the head begins.
func (v *run) witnesses(m Material) error {
	q, err := v.root.Quorum(v.root.Witnesses)
	if q == nil {
		if err == nil && m.Witnessed {
			v.missing(StepHead, "a root that names witnesses", "that witnesses have cosigned a tree head: the root names none")
		}
		return err
	}
	seen, largest, since := map[uint64]bool{}, uint64(0), int64(0)
	for note, h := range v.opened {
		at, ok := q.Since(note, math.MaxInt64)
		if !ok {
			continue
		}
		maps.Copy(seen, v.begins(h.Size))
		if h.Size > largest || h.Size == largest && at > since {
			largest, since = h.Size, at
		}
	}
	for _, size := range slices.Sorted(maps.Keys(v.bySize)) {
		if !seen[size] {
			v.missing(StepHead, "that head with their cosignatures, or a larger one that has them, and the consistency proof between the two",
				"that quorum %s, which the root names, has cosigned the tree head of size %d", q.name, size)
		}
	}
	if seen[slices.Max(slices.Collect(maps.Keys(v.bySize)))] {
		v.cosigned = fmt.Sprintf("; quorum %s has cosigned that of size %d, at %s", q.name, largest, time.Unix(since, 0).UTC().Format(time.RFC3339))
	}
	return nil
}

// entries proves that each entry is in the log (steps 3 and 4).
func (v *run) entries(m Material) error {
	receipts := slices.Clone(m.Receipts)
	used := make([]bool, len(m.Leaves))
	for _, proof := range m.Proofs {
		if len(m.Leaves) == 0 {
			v.missing(StepInclusion, "the file of its leaf: a .tlog-proof has none in it", "that the .tlog-proof of %s proves anything", entryName(proof.Index))
			continue
		}
		i := slices.IndexFunc(m.Leaves, func(leaf []byte) bool { return v.includes(proof, merkle.HashLeaf(leaf)) == nil })
		if i < 0 {
			return &StepError{Step: StepInclusion, What: entryName(proof.Index),
				Cause: fmt.Errorf("%w: none of the %d leaves given is the one of the .tlog-proof", merkle.ErrProof, len(m.Leaves))}
		}
		used[i] = true
		proof.Leaf = m.Leaves[i]
		receipts = append(receipts, proof)
	}
	for i := range m.Leaves {
		if !used[i] {
			v.missing(StepInclusion, "its .tlog-proof", "that leaf %d of those given is in the log", i+1)
		}
	}
	for _, r := range receipts {
		e, at, err := entry.DecodeLeaf(r.Leaf)
		if err != nil {
			return &StepError{Step: StepLeaf, What: entryName(r.Index), Cause: err}
		}
		hash := merkle.HashLeaf(r.Leaf)
		if err := v.includes(r, hash); err != nil {
			return &StepError{Step: StepInclusion, What: entryName(r.Index), Cause: err}
		}
		v.proven = append(v.proven, proven{Entry: Entry{Registered: entry.Registered{Entry: e, Index: r.Index, RegisteredAt: at}}, hash: hash, head: v.opened[r.Head]})
	}
	for _, h := range m.Histories {
		if err := v.historyEntries(h); err != nil {
			return err
		}
	}
	v.count[StepLeaf], v.count[StepInclusion] = len(v.proven), len(v.proven)
	return nil
}

func (v *run) includes(r Receipt, leaf merkle.Hash) error {
	return merkle.CheckInclusion(r.Index, leaf, v.opened[r.Head].Head, r.Proof)
}

func entryName(index uint64) string { return fmt.Sprintf("entry %d", index) }

// ledgerKeys looks at the heads again where the policies given name the keys
// that sign them (TRU-5): one that was signed by a key before only is no head.
func (v *run) ledgerKeys(Material) error {
	root := v.root.Follow(v.chain)
	if root.Since == v.root.Since {
		return nil
	}
	o, err := NewOpener(root)
	if err != nil {
		return err
	}
	for _, signed := range slices.Sorted(maps.Keys(v.opened)) {
		if _, err := o.open(signed); err != nil {
			return err
		}
	}
	return nil
}

func (v *run) report(m *Material) Report {
	for _, step := range steps() {
		if step.Count = v.count[step.Step]; step.Count > 0 {
			v.out.Checked = append(v.out.Checked, step)
		}
	}
	v.secondSignatures()
	v.warn()
	v.absences()
	v.subject(m)
	return v.out
}

// subject finds the entry that the material is about ([Report.Subject]).
func (v *run) subject(m *Material) {
	asked := slices.Concat(m.Receipts, m.Proofs)
	if len(asked) == 0 {
		return
	}
	i := slices.IndexFunc(v.out.Entries, func(e Entry) bool { return e.Index == asked[0].Index })
	if i >= 0 {
		v.out.Subject = &v.out.Entries[i]
	}
}

// secondSignatures says which heads carry a good ML-DSA-44 signature.
func (v *run) secondSignatures() {
	good, unverified, extended := 0, 0, 0
	for _, h := range v.opened {
		switch {
		case h.second:
			good++
		case h.unverified:
			unverified++
		}
		if h.extended {
			extended++
		}
	}
	v.out.Checked[0].Detail += v.cosigned
	if good > 0 {
		v.out.Checked[0].Detail += fmt.Sprintf("; %d of them by the pinned ML-DSA-44 key too", good)
	}
	if none := len(v.opened) - good - unverified; none > 0 && slices.Contains(slices.Collect(maps.Values(v.alg)), algMLDSA44) {
		v.notChecked("an ML-DSA-44 signature: there is none on %s", headsOf(none))
	}
	if unverified > 0 {
		v.notChecked("the ML-DSA-44 signature on %s: no verifier for it was given", headsOf(unverified))
	}
	if extended > 0 {
		v.notChecked("extension lines on %s", headsOf(extended))
	}
}

func headsOf(count int) string {
	if count == 1 {
		return "1 tree head"
	}
	return fmt.Sprintf("%d tree heads", count)
}

// warn looks in the chain for facts that weaken the checks.
func (v *run) warn() {
	for _, e := range v.out.Entries {
		if c := v.chain.Compromise(e.KeyID, e.Index); c != nil {
			v.out.Warnings = append(v.out.Warnings, fmt.Sprintf("entry %d: its key %s was revoked at %d as compromised since %d",
				e.Index, e.KeyID, c.Revoked, c.Since))
		}
	}
	if v.chain.policy == nil {
		return
	}
	for _, vkey := range v.chain.policy.LedgerKeys {
		if !slices.Contains(v.root.LedgerKeys, vkey) {
			name, _, _ := strings.Cut(vkey, "+")
			v.out.Warnings = append(v.out.Warnings, fmt.Sprintf("the policy at %d names a ledger key of %.140q that is not pinned",
				v.chain.inForce.Index, name))
		}
	}
}

// absences lists the properties that no receipt can show.
func (v *run) absences() {
	v.continues()
	if !v.root.Watched() {
		v.notChecked("witnesses: the root names none, so that a fork shown to nobody else stays unseen")
	}
	if len(v.out.Entries) > 0 {
		v.notChecked("%s", v.absent())
		v.notChecked("the state machine: references, windows and quotas need the whole log (arl log audit)")
		v.notChecked("registered_at: it is the ledger's word")
	}
}
