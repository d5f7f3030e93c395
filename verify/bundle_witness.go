package verify

import (
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

// quorum is whose cosignatures a head needs (c2sp.org/tlog-policy).
type quorum struct {
	nodes map[string]*quorumNode
	root  string // name of a witness or a group; none: nobody's
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

// parseQuorum reads a witness policy. Lines about logs mean nothing here: the
// ledger's keys are pinned.
func parseQuorum(text string) (*quorum, error) {
	q := &quorum{nodes: map[string]*quorumNode{}}
	for number, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
		if len(fields) == 0 {
			continue
		}
		if err := q.add(fields); err != nil {
			return nil, malformed("witness policy", "line %d: %v", number+1, err)
		}
	}
	if q.root == "" {
		return nil, malformed("witness policy", "no quorum").remedy("end it with a line: quorum none, or the name of a witness or a group")
	}
	return q, nil
}

// wantedQuorum reads a witness policy; nil if there is none, or none whose
// cosignatures it wants.
func wantedQuorum(text string) (*quorum, error) {
	if text == "" {
		return nil, nil
	}
	q, err := parseQuorum(text)
	if err != nil || q.root == noQuorum {
		return nil, err
	}
	return q, nil
}

// since returns the time (Unix seconds) that the cosignatures of the quorum on a
// head are not older than; false if it has not cosigned it. Cosignatures later
// than latest do not count.
func (q *quorum) since(root Root, signed string, latest int64) (at int64, ok bool) {
	c := newCosigned(root, signed)
	return c.age(q, q.root, latest)
}

// WitnessError reports a tree head that the witnesses have not cosigned whom the
// root names. It may be good: it may as well be one that is shown to nobody else.
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
	q, err := wantedQuorum(r.Witnesses)
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
	q, err := wantedQuorum(r.Witnesses)
	if err != nil || q == nil {
		return 0, err
	}
	at, ok := q.since(r, signed, math.MaxInt64)
	if !ok {
		return 0, &WitnessError{Quorum: q.root, Size: head.Size}
	}
	return at, nil
}

func (q *quorum) add(fields []string) error {
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
		return q.name(fields[1], &quorumNode{witness: key, text: fields[2]})
	case fields[0] == "group" && len(fields) > 3:
		return q.group(fields[1], fields[2], fields[3:])
	case fields[0] == "quorum" && len(fields) == 2:
		if _, known := q.nodes[fields[1]]; q.root != "" || !known && fields[1] != noQuorum {
			return fmt.Errorf("quorum %.80q is a second one, or unknown", fields[1])
		}
		q.root = fields[1]
		return nil
	}
	return fmt.Errorf("%.80q is none of log, witness, group and quorum with what belongs to it", strings.Join(fields, " "))
}

func (q *quorum) group(name, need string, members []string) error {
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
	return q.name(name, node)
}

func (q *quorum) name(name string, node *quorumNode) error {
	if q.nodes[name] != nil || name == noQuorum {
		return fmt.Errorf("the name %.80q is taken", name)
	}
	if len(q.nodes) >= 2*MaxWitnesses {
		return fmt.Errorf("more than %d witnesses and groups", 2*MaxWitnesses)
	}
	q.nodes[name] = node
	return nil
}

// cosigned is what a head's cosignatures say.
type cosigned struct {
	text string // of the note
	sigs []note.Signature
	root Root
}

func newCosigned(root Root, signed string) cosigned {
	_, err := note.Open([]byte(signed), note.VerifierList()) // which always is an error
	c := cosigned{root: root}
	if unverified, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		c.text, c.sigs = unverified.Note.Text, unverified.Note.UnverifiedSigs
	}
	return c
}

// age returns the time (Unix seconds) that cosignatures of the quorum are not
// older than; false if there is no quorum. Cosignatures later than latest do
// not count.
func (c *cosigned) age(q *quorum, name string, latest int64) (at int64, ok bool) {
	node := q.nodes[name]
	if node.members == nil {
		return c.witnessed(node, latest)
	}
	var times []int64
	for _, member := range node.members {
		if at, ok := c.age(q, member, latest); ok {
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
func (c *cosigned) witnessed(node *quorumNode, latest int64) (at int64, ok bool) {
	for _, sig := range c.sigs {
		if sig.Name != node.witness.name || sig.Hash != node.witness.hash {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(sig.Base64)
		if err != nil || len(raw) < 12 { // key hash, time
			continue
		}
		time := binary.BigEndian.Uint64(raw[4:])
		if time > math.MaxInt64 || int64(time) > latest || ok && int64(time) <= at {
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
	if c.root.Cosigner == nil {
		return false
	}
	verifier, err := c.root.Cosigner(node.text)
	return err == nil && verifier.Verify([]byte(c.text), sig)
}
