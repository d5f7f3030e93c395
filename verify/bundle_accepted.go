package verify

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Accepted is what an agent keeps of a ledger (TRU-3), to be stored whenever it
// changes and before anything is done that rests on it. What is checked against
// it never goes back. The first one has a Root and an Agent only.
type Accepted struct {
	Root  Root            `json:"root"`  // pinned, as policies left it; set its Cosigner after decoding
	Agent entry.Principal `json:"agent"` // whose it is; empty: of somebody who only looks
	// Head is the newest head, a signed note; empty at first.
	Head string `json:"head"`
	// Confirmed says that the head came under the witness quorum, or that a
	// second source has shown one that is consistent with it. Before, nothing is
	// to be undone.
	Confirmed bool `json:"confirmed"`
	// Links are the policies and the agent entries, ascending.
	Links []Logged `json:"links"`
	// Epochs are the highest by incident, ascending.
	Epochs []Epoch `json:"epochs"`

	// opened is what the fields above were when they were opened last; it counts
	// as long as they are the same. It never changes.
	opened *known
}

// Epoch is the highest epoch of an incident, from any act.
type Epoch struct {
	Incident uint64 `json:"incident"`
	Epoch    int64  `json:"epoch"`
}

// Encode returns the state as JSON, in its one form. The error is a
// [*FormatError].
func (a *Accepted) Encode() ([]byte, error) {
	if _, err := a.open(); err != nil {
		return nil, err
	}
	data, err := encode(acceptedName, a)
	if err == nil && len(data) > MaxAccepted {
		err = malformed(acceptedName, "%d bytes, the limit is %d", len(data), MaxAccepted)
	}
	return data, err
}

// DecodeAccepted reads a state that [Accepted.Encode] has written. The head and
// the order of the links are checked again, their signatures are not. The error
// is a [*FormatError] or, for the head, a [*StepError].
func DecodeAccepted(data []byte) (Accepted, error) {
	refuse := func(format string, args ...any) (Accepted, error) {
		return Accepted{}, malformed(acceptedName, format, args...).
			remedy("restore the file, or begin again from the pinned root: every member in work then counts as started")
	}
	if len(data) > MaxAccepted {
		return refuse("%d bytes, the limit is %d", len(data), MaxAccepted)
	}
	var a Accepted
	if err := json.Unmarshal(data, &a, json.RejectUnknownMembers(true)); err != nil {
		return refuse("%v", err)
	}
	opened, err := a.open()
	if err != nil {
		return Accepted{}, err
	}
	a.opened = opened
	again, err := encode(acceptedName, &a)
	if err != nil || !bytes.Equal(again, data) {
		return refuse("not in the one form it is written in, from byte %d", commonPrefix(again, data))
	}
	return a, nil
}

const acceptedName = "accepted state"

// Size returns how many entries the newest head covers: from where on the next
// bundle is to be asked for.
func (a *Accepted) Size() uint64 {
	known, err := a.open()
	if err != nil {
		return 0
	}
	return known.head.Size
}

// Epoch returns the highest epoch of an incident that was accepted.
func (a *Accepted) Epoch(incident uint64) (epoch int64, ok bool) {
	i, ok := a.epochAt(incident)
	if !ok {
		return 0, false
	}
	return a.Epochs[i].Epoch, true
}

func (a *Accepted) epochAt(incident uint64) (place int, ok bool) {
	return slices.BinarySearchFunc(a.Epochs, incident, func(e Epoch, incident uint64) int { return cmp.Compare(e.Incident, incident) })
}

// raise notes an epoch of an incident. The list is replaced, never changed.
func (a *Accepted) raise(incident uint64, epoch int64) error {
	i, ok := a.epochAt(incident)
	switch {
	case ok && a.Epochs[i].Epoch >= epoch:
		return nil
	case !ok && len(a.Epochs) >= MaxIncidents:
		return malformed(acceptedName, "%d incidents, the limit is %d", len(a.Epochs), MaxIncidents)
	}
	a.Epochs = slices.Clone(a.Epochs)
	if ok {
		a.Epochs[i].Epoch = epoch
	} else {
		a.Epochs = slices.Insert(a.Epochs, i, Epoch{incident, epoch})
	}
	return nil
}

// Confirm takes up that a second source has shown a head, as one of the two of a
// proof whose other one is the accepted head. That one stays, older or newer: what
// lies between the two, such as a revocation, was not shown. The error is a [*StepError], or a [*ForkError] if the two cannot both
// be of one log; a [*FormatError] if neither is the accepted head.
func (a Accepted) Confirm(p ConsistencyProof) (Accepted, error) {
	known, err := a.open()
	if err != nil {
		return a, err
	}
	older, newer, err := known.consistent(p)
	if err != nil {
		return a, err
	}
	if older.Head != known.head.Head && newer.Head != known.head.Head {
		return a, malformed("consistency proof", "neither head is the accepted one, of size %d", known.head.Size)
	}
	a.Confirmed, a.opened = true, known
	return a, nil
}

// known is an accepted state with its parts opened.
type known struct {
	*opener
	head   head // zero at first
	links  []proven
	source []Logged // what the links were opened from
	// read are entries of the bundles that were checked last, ascending: the next
	// one has most of them again. Their signatures were checked; by what right they
	// were signed is looked at anew.
	read []proven
}

// remember returns what is read once the entries of a bundle are accepted: they,
// and what was read before as long as that is not too much.
func (k *known) remember(entries []proven) []proven {
	if len(entries)+len(k.read) > readMax {
		return entries
	}
	all := slices.Concat(entries, k.read)
	slices.SortStableFunc(all, func(x, y proven) int { return cmp.Compare(x.Index, y.Index) })
	return slices.CompactFunc(all, func(x, y proven) bool { return x.Index == y.Index })
}

// next returns what is known once a head and links are accepted.
func (k *known) next(newest head, links []proven, source []Logged, read []proven) *known {
	return &known{k.fresh(newest), newest, links, slices.Clone(source), read}
}

// same reports whether two are one in memory.
func (l Logged) same(other Logged) bool {
	return l.Index == other.Index && len(l.Leaf) == len(other.Leaf) && len(l.Leaf) > 0 && &l.Leaf[0] == &other.Leaf[0]
}

// decode reads an entry, unless it was read before: as a link, or in one of the
// bundles that were checked last.
func (k *known) decode(logged Logged) (proven, error) {
	for _, before := range [][]proven{k.links, k.read} {
		if i, ok := findProven(before, logged.Index); ok && before[i].hash == merkle.HashLeaf(logged.Leaf) {
			return before[i], nil
		}
	}
	e, at, err := entry.DecodeLeaf(logged.Leaf)
	if err != nil {
		return proven{}, err
	}
	return proven{Entry: Entry{Registered: entry.Registered{Entry: e, Index: logged.Index, RegisteredAt: at}}, hash: e.LeafHash(at)}, nil
}

func findProven(list []proven, index uint64) (place int, ok bool) {
	return slices.BinarySearchFunc(list, index, func(p proven, index uint64) int { return cmp.Compare(p.Index, index) })
}

// remembered returns what is known if it is of the state's fields as they are.
func (a *Accepted) remembered() *known {
	k := a.opened
	if k == nil || k.head.note != a.Head || !k.root.same(&a.Root) || !slices.EqualFunc(k.source, a.Links, Logged.same) {
		return nil
	}
	return k.next(k.head, k.links, k.source, k.read)
}

// open checks the form of the state. That its links are of the log was checked
// when they were accepted.
func (a *Accepted) open() (*known, error) {
	switch {
	case len(a.Links) > MaxLinks:
		return nil, malformed(acceptedName, "%d links, the limit is %d", len(a.Links), MaxLinks)
	case len(a.Epochs) > MaxIncidents:
		return nil, malformed(acceptedName, "%d incidents, the limit is %d", len(a.Epochs), MaxIncidents)
	case !plainText(string(a.Agent)):
		return nil, malformed(acceptedName, "agent %.140q is no principal", a.Agent)
	case a.Head == "" && (a.Confirmed || len(a.Links)+len(a.Epochs) > 0):
		return nil, malformed(acceptedName, "no head, but something that rests on one")
	}
	for i := range a.Epochs {
		if i > 0 && a.Epochs[i-1].Incident >= a.Epochs[i].Incident {
			return nil, malformed(acceptedName, "epochs[%d]: incident %d does not ascend", i, a.Epochs[i].Incident)
		}
	}
	if k := a.remembered(); k != nil {
		return k, nil
	}
	o, err := newOpener(a.Root)
	if err != nil {
		return nil, err
	}
	k := &known{opener: o, source: slices.Clone(a.Links)}
	if a.Head != "" {
		if k.head, err = o.open(a.Head); err != nil {
			return nil, err
		}
	}
	return k, k.openLinks(a.Links)
}

func (k *known) openLinks(links []Logged) error {
	for i, link := range links {
		e, at, err := entry.DecodeLeaf(link.Leaf)
		switch {
		case err != nil:
			return malformed(acceptedName, "links[%d]: %v", i, err)
		case e.Kind != entry.KindPolicy && e.Kind != entry.KindAgent:
			return malformed(acceptedName, "links[%d]: a %s entry", i, e.Kind)
		case i > 0 && links[i-1].Index >= link.Index || link.Index >= k.head.Size:
			return malformed(acceptedName, "links[%d]: index %d does not ascend below the size of the head", i, link.Index)
		}
		k.links = append(k.links, proven{Entry: Entry{Registered: entry.Registered{Entry: e, Index: link.Index, RegisteredAt: at}, Signed: true}, hash: e.LeafHash(at)})
	}
	return nil
}

// reconcile checks that a head may follow the accepted one: AGT-1 without
// witnesses.
func (k *known) reconcile(newer head, from uint64, path []merkle.Hash) error {
	older := k.head
	switch {
	case older.note == "" && (from != 0 || len(path) > 0):
		return errors.New("a consistency proof, but no head was accepted before")
	case older.note == "":
		return nil
	case newer.Size < older.Size:
		return malformed("tree head", "size %d, less than the %d accepted before", newer.Size, older.Size).remedy("ask for the newest")
	}
	if err := checkFork(older, newer); err != nil {
		return err
	}
	if from != older.Size {
		return malformed("consistency proof", "from size %d, but the head accepted last has size %d", from, older.Size).
			remedy("ask for the bundle from that size")
	}
	return merkle.CheckConsistency(older.Head, newer.Head, path)
}
