package bundle

import (
	"cmp"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Accepted is the state that an agent keeps of a ledger (TRU-3). The agent stores it whenever it
// changes, before an action that rests on it. The state never goes back. The first state has only a
// Root and an Agent.
type Accepted struct {
	Root  verify.Root     `json:"root"`  // pinned, as policies left it; set its Cosigner after decoding
	Agent entry.Principal `json:"agent"` // the agent; empty: a reader that is no agent
	// Head is the newest head, a signed note; empty at first.
	Head string `json:"head"`
	// Confirmed says that the head came under the witness quorum, or that a
	// second source has shown one that is consistent with it. Before, nothing is
	// to be undone.
	Confirmed bool `json:"confirmed"`
	// Links are the policies and the agent entries, ascending.
	Links []Leaf `json:"links"`
	// Epochs are the highest by incident, ascending.
	Epochs []Epoch `json:"epochs"`

	// opened has the fields above when they were opened last. It counts as long as the fields are
	// the same. It never changes.
	opened *known
}

// Epoch is the highest epoch of an incident, from any act. A proposal counts until it expires.
// Afterwards nothing can carry the proposal out, and the plan before it continues.
type Epoch struct {
	Incident uint64 `json:"incident"`
	Epoch    int64  `json:"epoch"`
	// Settled is the highest epoch from another act than escalate, where that is lower.
	Settled int64 `json:"settled,omitzero"`
	// Lapses is the exp of the escalate that Epoch is of, Unix seconds; 0: it is of
	// another act.
	Lapses int64 `json:"lapses,omitzero"`
}

// at returns the epoch that counts at a time, Unix milliseconds.
func (e Epoch) at(now int64) int64 {
	if e.Lapses != 0 && e.Lapses*1000 <= now {
		return e.Settled
	}
	return e.Epoch
}

// raise takes up the epoch of a decision.
func (e Epoch) raise(d *entry.Decision) Epoch {
	proposal := d.Act == entry.ActEscalate
	switch {
	case proposal && d.Epoch > e.Epoch:
		if e.Lapses == 0 {
			e.Settled = e.Epoch
		}
		e.Epoch, e.Lapses = d.Epoch, d.Exp
	case !proposal && d.Epoch >= e.Epoch:
		e.Epoch, e.Settled, e.Lapses = d.Epoch, 0, 0
	case !proposal && e.Lapses != 0:
		e.Settled = max(e.Settled, d.Epoch)
	}
	return e
}

// Encode returns the state as JSON, in its one form. The error is a
// [*verify.FormatError].
func (a *Accepted) Encode() ([]byte, error) {
	if _, err := a.open(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(a)
	switch {
	case err != nil:
		return nil, verify.Malformed(acceptedName, "%v", err)
	case len(data) > MaxAccepted:
		return nil, verify.Malformed(acceptedName, "%d bytes, the limit is %d", len(data), MaxAccepted)
	}
	return data, nil
}

// DecodeAccepted reads a state that [Accepted.Encode] has written. The head and
// the order of the links are checked again, their signatures are not. The error
// is a [*verify.FormatError] or, for the head, a [*verify.StepError].
func DecodeAccepted(data []byte) (Accepted, error) {
	refuse := func(err *verify.FormatError) (Accepted, error) {
		return Accepted{}, err.WithRemedy("restore the file, or begin again from the pinned root: unfinished members are then treated as started")
	}
	if len(data) > MaxAccepted {
		return refuse(verify.Malformed(acceptedName, "%d bytes, the limit is %d", len(data), MaxAccepted))
	}
	var a Accepted
	if err := json.Unmarshal(data, &a, json.RejectUnknownMembers(true)); err != nil {
		return refuse(verify.Malformed(acceptedName, "%v", err))
	}
	opened, err := a.open()
	if err != nil {
		return Accepted{}, err
	}
	a.opened = opened
	if format, ok := errors.AsType[*verify.FormatError](verify.CheckForm(acceptedName, data, &a)); ok {
		return refuse(format)
	}
	return a, nil
}

const acceptedName = "accepted state"

// Size returns the size of the newest head. The next bundle is asked for from there.
func (a *Accepted) Size() uint64 {
	known, err := a.open()
	if err != nil {
		return 0
	}
	return known.head.Size
}

// Epoch returns the highest epoch of an incident that was accepted and counts at a
// time, Unix milliseconds.
func (a *Accepted) Epoch(incident uint64, now int64) (epoch int64, ok bool) {
	i, ok := a.epochAt(incident)
	if !ok {
		return 0, false
	}
	return a.Epochs[i].at(now), true
}

func (a *Accepted) epochAt(incident uint64) (place int, ok bool) {
	return slices.BinarySearchFunc(a.Epochs, incident, func(e Epoch, incident uint64) int { return cmp.Compare(e.Incident, incident) })
}

// raise notes the epoch of a decision. The list is replaced, never changed.
func (a *Accepted) raise(d *entry.Decision) error {
	i, ok := a.epochAt(d.Incident)
	before := Epoch{Incident: d.Incident}
	if ok {
		before = a.Epochs[i]
	}
	after := before.raise(d)
	switch {
	case ok && after == before:
		return nil
	case !ok && len(a.Epochs) >= MaxIncidents:
		return verify.Malformed(acceptedName, "%d incidents, the limit is %d", len(a.Epochs), MaxIncidents)
	}
	a.Epochs = slices.Clone(a.Epochs)
	if !ok {
		a.Epochs = slices.Insert(a.Epochs, i, before)
	}
	a.Epochs[i] = after
	return nil
}

// Confirm takes up that a second source has shown a head, as one of the two of a
// proof whose other one is the accepted head. That one stays, older or newer: what
// lies between the two, such as a revocation, was not shown. The error is a
// [*verify.StepError], or a [*verify.ForkError] if the two cannot both be of one
// log; a [*verify.FormatError] if neither is the accepted head.
func (a Accepted) Confirm(p verify.ConsistencyProof) (Accepted, error) {
	known, err := a.open()
	if err != nil {
		return a, err
	}
	older, newer, err := known.heads.Consistency(p)
	if err != nil {
		return a, err
	}
	if older.Head != known.head.Head && newer.Head != known.head.Head {
		return a, verify.Malformed("consistency proof", "neither head is the accepted one, of size %d", known.head.Size)
	}
	a.Confirmed, a.opened = true, known
	return a, nil
}

// known is an accepted state with its parts opened.
type known struct {
	heads  *verify.Opener
	head   verify.SignedHead // zero at first
	links  []proven
	source []Leaf // the fields that the links were opened from
	// read are entries of the bundles that were checked last, ascending: the next
	// one has most of them again. Their signatures were checked; by what right they
	// were signed is looked at anew.
	read []proven
}

// proven is an entry of a bundle or of an accepted state. It is in the log of the
// head, once that is checked.
type proven struct {
	entry.Registered
	hash merkle.Hash // of the leaf
	// entitled says that the chain lets its key sign such an entry: it is an accepted
	// link, or the chain was asked.
	entitled bool
}

// decodeLeaf reads an entry and hashes its leaf.
func decodeLeaf(leaf Leaf) (proven, error) {
	e, at, err := entry.DecodeLeaf(leaf.Bytes)
	if err != nil {
		return proven{}, err
	}
	return proven{Registered: entry.Registered{Entry: e, Index: leaf.Index, RegisteredAt: at}, hash: e.LeafHash(at)}, nil
}

// open opens a tree head, unless it is the accepted one.
func (k *known) open(signed string) (verify.SignedHead, error) {
	if signed == k.head.Note { // none is empty
		return k.head, nil
	}
	return k.heads.Open(signed)
}

// remember returns the read entries once the entries of a bundle are accepted: the new entries, and
// the earlier ones up to a limit.
func (k *known) remember(entries []proven) []proven {
	if len(entries)+len(k.read) > readMax {
		return entries
	}
	all := slices.Concat(entries, k.read)
	slices.SortStableFunc(all, func(x, y proven) int { return cmp.Compare(x.Index, y.Index) })
	return slices.CompactFunc(all, func(x, y proven) bool { return x.Index == y.Index })
}

// same reports whether a link that was opened, which is never empty, and another one
// are one in memory.
func same(opened, other Leaf) bool {
	return opened.Index == other.Index && len(opened.Bytes) == len(other.Bytes) && &opened.Bytes[0] == &other.Bytes[0]
}

// decode reads an entry, unless it was read before: as a link, or in one of the
// bundles that were checked last.
func (k *known) decode(leaf Leaf) (proven, error) {
	for _, before := range [][]proven{k.links, k.read} {
		if i, ok := findProven(before, leaf.Index); ok && before[i].hash == merkle.HashLeaf(leaf.Bytes) {
			return before[i], nil
		}
	}
	return decodeLeaf(leaf)
}

func findProven(list []proven, index uint64) (place int, ok bool) {
	return slices.BinarySearchFunc(list, index, func(p proven, index uint64) int { return cmp.Compare(p.Index, index) })
}

// remembered returns the opened fields if they equal the present fields of the state.
func (a *Accepted) remembered() *known {
	k := a.opened
	if k == nil || k.head.Note != a.Head || !k.heads.OpensFor(&a.Root) || !slices.EqualFunc(k.source, a.Links, same) {
		return nil
	}
	again := *k
	return &again
}

// open checks the form of the state. That its links are of the log was checked
// when they were accepted.
func (a *Accepted) open() (*known, error) {
	switch {
	case len(a.Links) > MaxLinks:
		return nil, verify.Malformed(acceptedName, "%d links, the limit is %d", len(a.Links), MaxLinks)
	case len(a.Epochs) > MaxIncidents:
		return nil, verify.Malformed(acceptedName, "%d incidents, the limit is %d", len(a.Epochs), MaxIncidents)
	case !plainText(string(a.Agent)):
		return nil, verify.Malformed(acceptedName, "agent %.140q is not a principal", a.Agent)
	case a.Head == "" && (a.Confirmed || len(a.Links)+len(a.Epochs) > 0):
		return nil, verify.Malformed(acceptedName, "no head, but something that rests on one")
	}
	for i, e := range a.Epochs {
		switch {
		case i > 0 && a.Epochs[i-1].Incident >= e.Incident:
			return nil, verify.Malformed(acceptedName, "epochs[%d]: incident %d does not ascend", i, e.Incident)
		case e.Lapses == 0 && e.Settled != 0, e.Lapses != 0 && e.Settled >= e.Epoch:
			return nil, verify.Malformed(acceptedName, "epochs[%d]: settled %d belongs to no epoch above it that lapses", i, e.Settled)
		}
	}
	if k := a.remembered(); k != nil {
		return k, nil
	}
	heads, err := verify.NewOpener(a.Root)
	if err != nil {
		return nil, err
	}
	k := &known{heads: heads, source: slices.Clone(a.Links)}
	if a.Head != "" {
		if k.head, err = heads.Open(a.Head); err != nil {
			return nil, err
		}
	}
	return k, k.openLinks(a.Links)
}

func (k *known) openLinks(links []Leaf) error {
	for i, link := range links {
		p, err := decodeLeaf(link)
		switch {
		case err != nil:
			return verify.Malformed(acceptedName, "links[%d]: %v", i, err)
		case p.Kind != entry.KindPolicy && p.Kind != entry.KindAgent:
			return verify.Malformed(acceptedName, "links[%d]: a %s entry", i, p.Kind)
		case i > 0 && links[i-1].Index >= link.Index || link.Index >= k.head.Size:
			return verify.Malformed(acceptedName, "links[%d]: index %d does not ascend below the size of the head", i, link.Index)
		}
		p.entitled = true
		k.links = append(k.links, p)
	}
	return nil
}

// reconcile checks that a head may follow the accepted one: AGT-1 without
// witnesses.
func (k *known) reconcile(newer verify.SignedHead, from uint64, path []merkle.Hash) error {
	older := k.head
	switch {
	case older.Note == "" && (from != 0 || len(path) > 0):
		return errors.New("a consistency proof, but no head was accepted before")
	case older.Note == "":
		return nil
	case newer.Size < older.Size:
		return verify.Malformed("tree head", "size %d, less than the %d accepted before", newer.Size, older.Size).WithRemedy("ask for the newest")
	}
	if err := older.CheckFork(newer); err != nil {
		return err
	}
	if from != older.Size {
		return verify.Malformed("consistency proof", "from size %d, but the head accepted last has size %d", from, older.Size).
			WithRemedy("ask for the bundle from that size")
	}
	return merkle.CheckConsistency(older.Head, newer.Head, path)
}
