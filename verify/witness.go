package verify

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// algCosignature is an Ed25519 cosignature (c2sp.org/tlog-cosignature).
const algCosignature = 0x04

// Quorum holds the witnesses whose cosignatures a head needs under a witness policy
// (c2sp.org/tlog-policy).
type Quorum struct {
	nodes    map[string]*quorumNode
	listed   []Witness // as the policy lists them
	name     string    // of a witness or a group; none: nobody's
	cosigner func(vkey string) (note.Verifier, error)
}

// Witness is a witness as a witness policy names it.
type Witness struct {
	Name string // in the policy
	Key  string // its verifier key, which has another name
	URL  string // submission prefix (c2sp.org/tlog-witness); empty: the policy says none
}

// Witnesses returns the witnesses that the witness policy names, in its order.
func (q *Quorum) Witnesses() []Witness { return slices.Clone(q.listed) }

// Cosigned returns the time (Unix seconds) of the newest good cosignature on a signed
// head by a witness that the policy names so; false if there is none. The head's own
// signatures are not looked at.
func (q *Quorum) Cosigned(name, signed string) (at int64, ok bool) {
	node := q.nodes[name]
	if node == nil {
		return 0, false
	}
	c := cosigned{Quorum: q, latest: math.MaxInt64}
	c.text, c.sigs = signaturesOn(signed)
	return c.witnessed(node)
}

// quorumNode is a witness or a group.
type quorumNode struct {
	witness vkey     // of a witness
	text    string   // its verifier key
	members []string // of a group
	need    int
	grouped bool
}

const noQuorum = "none"

// Quorum reads a witness policy, such as [Root.Witnesses]; nil if it wants nobody's
// cosignature. Lines about logs mean nothing here: the ledger's keys are pinned.
// ML-DSA-44 cosignatures are checked with [Root.Cosigner], and do not count without
// it. The error is a [*FormatError].
func (r Root) Quorum(policy string) (*Quorum, error) {
	if policy == "" {
		return nil, nil
	}
	q := &Quorum{nodes: map[string]*quorumNode{}, cosigner: r.Cosigner}
	for number, line := range strings.Split(policy, "\n") {
		fields := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := q.read(fields); err != nil {
			return nil, Malformed("witness policy", "line %d: %v", number+1, err)
		}
	}
	switch q.name {
	case "":
		return nil, Malformed("witness policy", "no quorum").WithRemedy("end it with a line: quorum none, or the name of a witness or a group")
	case noQuorum:
		return nil, nil
	}
	return q, nil
}

// Name returns the name of the quorum in its witness policy.
func (q *Quorum) Name() string { return q.name }

// EmergencyGroup is the name of the group of a witness policy whose cosignatures stand
// in for those of the quorum under the head that brings a policy with other witnesses
// (WIT-6).
const EmergencyGroup = "emergency"

// Emergency returns the quorum of [EmergencyGroup]; nil if the witness policy has no
// group of that name.
func (q *Quorum) Emergency() *Quorum {
	if node := q.nodes[EmergencyGroup]; node == nil || node.members == nil {
		return nil
	}
	waiver := *q
	waiver.name = EmergencyGroup
	return &waiver
}

// Reached reports whether witnesses are enough for the quorum; of says by the name of a
// witness in the witness policy whether it is one of them.
func (q *Quorum) Reached(of func(witness string) bool) bool { return q.reached(q.name, of) }

func (q *Quorum) reached(name string, of func(string) bool) bool {
	node := q.nodes[name]
	if node.members == nil {
		return of(name)
	}
	count := 0
	for _, member := range node.members {
		if q.reached(member, of) {
			count++
		}
	}
	return count >= node.need
}

// Counts reports whether the cosignature of a witness of the witness policy can count
// for the quorum.
func (q *Quorum) Counts(witness string) bool { return q.contains(q.name, witness) }

func (q *Quorum) contains(name, witness string) bool {
	node := q.nodes[name]
	if node.members == nil {
		return name == witness
	}
	return slices.ContainsFunc(node.members, func(member string) bool { return q.contains(member, witness) })
}

// Since returns a time (Unix seconds). No cosignature of the quorum on a signed head is older
// than that time. ok is false if the quorum has not cosigned the head. Cosignatures later than
// latest do not count. Since does not check the head's own signatures: [Opener.Open] does.
func (q *Quorum) Since(signed string, latest int64) (at int64, ok bool) {
	c := cosigned{Quorum: q, latest: latest}
	c.text, c.sigs = signaturesOn(signed)
	return c.age(q.name)
}

// WitnessError reports a tree head that the witnesses of the root have not cosigned. The head may
// be good. It may also be a head that the ledger shows to no other reader.
type WitnessError struct {
	Quorum string // its name in the witness policy
	Size   uint64 // of the head
}

// Error implements error.
func (e *WitnessError) Error() string {
	return fmt.Sprintf("verify: quorum %s, which the root names, has not cosigned the tree head of size %d, nor a later one that continues it", e.Quorum, e.Size)
}

// Watched reports whether the root names a quorum of witnesses.
func (r Root) Watched() bool {
	q, err := r.Quorum(r.Witnesses)
	return err != nil || q != nil
}

// Witnessed returns since when (Unix seconds) a signed head is cosigned by the
// quorum that the root names; 0 if it names none. How old that may be is for the
// caller. The error is a [*WitnessError], a [*StepError] of [StepHead] or, if the
// root is malformed, a [*FormatError].
func (r Root) Witnessed(signed string) (at int64, err error) {
	head, err := r.Head([]byte(signed))
	if err != nil {
		return 0, err
	}
	q, _ := r.Quorum(r.Witnesses) // opening the head has read the policy
	if q == nil {
		return 0, nil
	}
	at, ok := q.Since(signed, math.MaxInt64)
	if !ok {
		return 0, &WitnessError{Quorum: q.name, Size: head.Size}
	}
	return at, nil
}

// read takes up a line of the witness policy.
func (q *Quorum) read(fields []string) error {
	switch {
	case fields[0] == "log" && (len(fields) == 2 || len(fields) == 3):
		return nil
	case fields[0] == "witness" && (len(fields) == 3 || len(fields) == 4):
		// Some tools take a key of type 0x01 for one of type 0x04; the two are
		// different keys.
		key, err := decodeVKey(fields[2], algCosignature)
		if err != nil {
			return err
		}
		for name, node := range q.nodes {
			if bytes.Equal(node.witness.key, key.key) {
				return fmt.Errorf("witness %.80q has the key of witness %.80q: one key counts once", fields[1], name)
			}
		}
		w := Witness{Name: fields[1], Key: fields[2]}
		if len(fields) == 4 {
			w.URL = fields[3]
		}
		q.listed = append(q.listed, w)
		return q.add(fields[1], &quorumNode{witness: key, text: fields[2]})
	case fields[0] == "group" && len(fields) > 3:
		return q.group(fields[1], fields[2], fields[3:])
	case fields[0] == "quorum" && len(fields) == 2:
		if _, known := q.nodes[fields[1]]; q.name != "" || !known && fields[1] != noQuorum {
			return fmt.Errorf("quorum %.80q is a second one, or unknown", fields[1])
		}
		q.name = fields[1]
		return nil
	}
	return fmt.Errorf("%.80q is none of log, witness, group and quorum with what belongs to it", strings.Join(fields, " "))
}

func (q *Quorum) group(name, need string, members []string) error {
	node := &quorumNode{members: members}
	switch count, err := strconv.Atoi(need); {
	case need == "any":
		node.need = 1
	case need == "all":
		node.need = len(members)
	case err != nil || count < 1 || count > len(members) || strconv.Itoa(count) != need:
		return fmt.Errorf("group %.80q needs %.20q of %d", name, need, len(members))
	default:
		node.need = count
	}
	for _, member := range members {
		m := q.nodes[member]
		if m == nil || m.grouped {
			return fmt.Errorf("member %.80q is unknown, or in a group already", member)
		}
		m.grouped = true
	}
	return q.add(name, node)
}

func (q *Quorum) add(name string, node *quorumNode) error {
	if q.nodes[name] != nil || name == noQuorum {
		return fmt.Errorf("the name %.80q is taken", name)
	}
	if len(q.nodes) >= 2*MaxWitnesses {
		return fmt.Errorf("more than %d witnesses and groups", 2*MaxWitnesses)
	}
	q.nodes[name] = node
	return nil
}

// signaturesOn returns the text of a signed head and all signatures on it, none of
// them checked.
func signaturesOn(signed string) (text string, sigs []note.Signature) {
	_, err := note.Open([]byte(signed), note.VerifierList()) // always returns an error
	if unverified, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return unverified.Note.Text, unverified.Note.UnverifiedSigs
	}
	return "", nil
}

// cosigned holds the cosignatures on a head.
type cosigned struct {
	*Quorum
	text   string // of the note
	sigs   []note.Signature
	latest int64 // Unix seconds: later cosignatures do not count
}

// age returns the time (Unix seconds) that cosignatures of a witness or group are
// not older than; false if there are not enough.
func (c *cosigned) age(name string) (at int64, ok bool) {
	node := c.nodes[name]
	if node.members == nil {
		return c.witnessed(node)
	}
	var times []int64
	for _, member := range node.members {
		if at, ok := c.age(member); ok {
			times = append(times, at)
		}
	}
	if len(times) < node.need {
		return 0, false
	}
	slices.SortFunc(times, func(a, b int64) int { return cmp.Compare(b, a) })
	return times[node.need-1], true
}

// witnessed returns the time of the newest good cosignature of a witness.
func (c *cosigned) witnessed(node *quorumNode) (at int64, ok bool) {
	for _, sig := range c.sigs {
		if sig.Name != node.witness.name || sig.Hash != node.witness.hash {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(sig.Base64)
		if err != nil || len(raw) < 12 { // key hash, time
			continue
		}
		time := binary.BigEndian.Uint64(raw[4:])
		if time > math.MaxInt64 || int64(time) > c.latest || ok && int64(time) <= at {
			continue
		}
		if c.good(node, raw[4:]) {
			at, ok = int64(time), true
		}
	}
	return at, ok
}

// good checks a cosignature: the time and the signature over it and the text.
func (c *cosigned) good(node *quorumNode, sig []byte) bool {
	if node.witness.alg == algCosignature {
		message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), c.text)
		return ed25519.Verify(node.witness.key, []byte(message), sig[8:])
	}
	if c.cosigner == nil {
		return false
	}
	verifier, err := c.cosigner(node.text)
	return err == nil && verifier.Verify([]byte(c.text), sig)
}
