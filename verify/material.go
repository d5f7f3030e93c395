package verify

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Material is the input of a verifier, in any order and from any source.
type Material struct {
	Receipts    []Receipt
	Proofs      []Receipt     // without leaf, out of a .tlog-proof
	Leaves      [][]byte      // for the proofs
	Consistency []Consistency // each has its two heads among the Heads, or among those of receipts
	Heads       []string      // signed notes
	// Evidence is the input that is evidence. Its heads and receipts are among those above.
	Evidence []Evidence
	// Histories prove which entries there are. Questions must each be answered by one of the
	// histories. A question of size 0 is about the size of the history.
	Histories []*History
	Questions []Question
	// Witnessed says that tree heads without witnesses are not enough: under a root that names no
	// witnesses, the cosignatures are missing.
	Witnessed bool
}

// Add reads a file and adds what it holds, told by its content: receipts, leaves,
// pages of entries, histories, consistency proofs, tree heads and evidence of an
// inconsistent log as JSON, one or many, with any white space between; a .tlog-proof; a signed
// tree head. The name stands in errors only. The error is a [*FormatError], and
// then nothing is added.
func (m *Material) Add(name string, data []byte) error {
	if len(data) > MaxFile {
		return Malformed(name, "%d bytes, the limit is %d", len(data), MaxFile)
	}
	var add Material
	var err error
	switch {
	case bytes.HasPrefix(data, []byte(tlogProofHeader)):
		var proof Receipt
		proof, err = ParseTLogProof(data)
		add.Proofs = []Receipt{proof}
	case bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")):
		err = add.addJSON(data)
	case bytes.Contains(data, []byte("\n\n\u2014 ")):
		add.Heads = []string{string(data)}
	default:
		err = Malformed("content", "neither a receipt, a leaf, a page of entries, a consistency proof, a .tlog-proof nor a tree head").
			WithRemedy("give receipts as `arl log proof` writes them")
	}
	if err == nil && (m.items()+add.items() > MaxItems || len(m.Leaves)+len(add.Leaves) > MaxLeaves) {
		err = Malformed("content", "more than %d receipts, proofs and heads, or %d leaves", MaxItems, MaxLeaves).WithRemedy("verify them in parts")
	}
	if format, ok := errors.AsType[*FormatError](err); ok {
		format.What = name + ": " + format.What
	}
	if err != nil {
		return err
	}
	m.Receipts = append(m.Receipts, add.Receipts...)
	m.Proofs = append(m.Proofs, add.Proofs...)
	m.Leaves = append(m.Leaves, add.Leaves...)
	m.Consistency = append(m.Consistency, add.Consistency...)
	m.Heads = append(m.Heads, add.Heads...)
	m.Evidence = append(m.Evidence, add.Evidence...)
	m.Histories = append(m.Histories, add.Histories...)
	return nil
}

func (m *Material) items() int {
	items := len(m.Receipts) + len(m.Proofs) + len(m.Leaves) + len(m.Consistency) + len(m.Heads)
	for _, h := range m.Histories {
		items += 1 + len(h.Entries)
	}
	return items
}

func (m *Material) addJSON(data []byte) error {
	values := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		raw, err := values.ReadValue()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return Malformed("JSON", "%v", err)
		}
		value := slices.Clone(raw)
		if err := value.Compact(); err != nil {
			return Malformed("JSON", "%v", err)
		}
		if err := m.addObject(value); err != nil {
			return err
		}
		if m.items() > MaxItems {
			return nil // refused by the caller
		}
	}
}

// addObject tells the shapes apart by a member that only one of them has.
func (m *Material) addObject(value jsontext.Value) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(value, &members); err != nil {
		return Malformed("JSON", "not an object: %v", err)
	}
	has := func(name string) bool {
		_, ok := members[name]
		return ok
	}
	switch {
	case has("prefix"):
		history, err := DecodeHistory(value)
		m.Histories = append(m.Histories, history)
		return err
	case has("leaf"):
		receipt, err := DecodeReceipt(value)
		m.Receipts = append(m.Receipts, receipt)
		return err
	case has("old"):
		proof, err := DecodeConsistency(value)
		m.Consistency = append(m.Consistency, proof)
		return err
	case members["evidence"].Kind() == '"':
		return m.addEvidence(value)
	case has("evidence"): // a page of them
		return m.addEvidencePage(members["evidence"])
	case has("head") && len(members) == 1:
		return m.addHead(members["head"])
	case has("entries") && has("head"):
		return m.addPage(value)
	case has("envelope") && has("proof"):
		return Malformed("JSON", "an entry out of a page, without the tree head that its proof leads to").WithRemedy("give the page as it was received")
	case has("envelope"):
		m.Leaves = append(m.Leaves, value)
		return nil
	case has("payload"):
		return Malformed("JSON", "a bare envelope, of which nothing can be proven").
			WithRemedy("give its receipt, or the leaf {envelope, registered_at} beside a .tlog-proof")
	case has("what") && has("data"):
		return Malformed("JSON", "the damage that arl log fsck found in one data directory, of which nothing can be proven").
			WithRemedy("run arl log fsck on that directory again")
	case has("genesis"):
		return Malformed("JSON", "a pinned root, which is not something to be checked").WithRemedy("give it as the root to check against")
	}
	return Malformed("JSON", "an object that is no receipt, leaf, page of entries, history, consistency proof, tree head or evidence").
		WithRemedy("give receipts as `arl log proof` writes them")
}

// addHead takes a tree head in JSON.
func (m *Material) addHead(value jsontext.Value) error {
	var note string
	if err := json.Unmarshal(value, &note); err != nil || note == "" || len(note) > MaxNote {
		return Malformed("JSON", "a tree head that is no text of 1 to %d bytes", MaxNote)
	}
	m.Heads = append(m.Heads, note)
	return nil
}

// addEvidencePage takes the evidence of a page, as a server answers it.
func (m *Material) addEvidencePage(list jsontext.Value) error {
	var documents []jsontext.Value
	if err := json.Unmarshal(list, &documents); err != nil {
		return Malformed("page", "evidence: %v", err)
	}
	for _, value := range documents {
		if err := m.addEvidence(value); err != nil {
			return err
		}
	}
	return nil
}

// page is what an answer with proven entries has of them: a list of entries, or a
// history. The rest of it is the server's word, and not looked at.
type page struct {
	Head    string `json:"head"`
	Entries []struct {
		Index        uint64         `json:"index"`
		RegisteredAt int64          `json:"registered_at"`
		Envelope     jsontext.Value `json:"envelope"`
		Proof        []merkle.Hash  `json:"proof"`
	} `json:"entries"`
}

// addPage takes the entries of a page as receipts under its head.
func (m *Material) addPage(value jsontext.Value) error {
	var p page
	if err := json.Unmarshal(value, &p); err != nil {
		return Malformed("page", "%v", err)
	}
	m.Heads = append(m.Heads, p.Head) // also of a page without entries
	for i := range p.Entries {
		e := &p.Entries[i]
		decoded, err := entry.Decode(e.Envelope)
		if err != nil {
			return Malformed("page", "entries[%d]: %v", i, err)
		}
		r := Receipt{Leaf: decoded.AppendLeaf(nil, e.RegisteredAt), Index: e.Index, Proof: e.Proof, Head: p.Head}
		if err := r.check(); err != nil {
			return Malformed("page", "entries[%d]: %v", i, err)
		}
		m.Receipts = append(m.Receipts, r)
	}
	return nil
}
