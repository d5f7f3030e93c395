// Package api is what a ledger's HTTP interface says: the JSON of its requests
// and answers, and the catalogue of its problems. It is shared by server and
// client and does nothing but describe.
//
// What a ledger answers can be checked: entries come with their inclusion
// proof and the signed tree head that it leads to, so that a reader with a
// pinned root ([recoveryledger/verify]) needs no trust in the carrier. A
// receipt is a [verify.Receipt], byte for byte.
//
// An error is RFC 9457 problem details, [Problem]; its type is one of the closed
// set of the protocol (REG-1 to REG-10), each with a status, a meaning and a
// remedy in [Types], or about:blank with a plain HTTP status.
package api

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Media types of requests and answers.
const (
	MediaJSON    = "application/json"
	MediaNDJSON  = "application/x-ndjson"
	MediaProblem = "application/problem+json"
	MediaEvents  = "text/event-stream"
	MediaNote    = "text/plain; charset=utf-8"
	MediaTile    = "application/octet-stream"
	MediaOpenAPI = "application/openapi+json"
	// MediaCOSE is of a COSE receipt (RFC 9943).
	MediaCOSE = "application/scitt-receipt+cose"
	// MediaDSSE is of an envelope by itself.
	MediaDSSE = "application/vnd.dsse.envelope.v1+json"
)

// Headers of the interface.
const (
	// HeaderRequestID names a request: taken from the caller if it is 1 to 64
	// characters of A–Z a–z 0–9 . _ -, else made up; in every answer and log line.
	HeaderRequestID = "X-Request-Id"
	// HeaderRegisteredAt is the registered_at of a submitted entry in Unix
	// milliseconds, beside its receipt.
	HeaderRegisteredAt = "Registered-At"
	// HeaderWitnessed says whether the quorum of witnesses has cosigned the tree head of a
	// receipt: true or false. It is there where that was asked for.
	HeaderWitnessed = "Witnessed"
	// HeaderLogSize is a size that the log had at the node that answers, when it made the
	// answer. It is in every answer.
	HeaderLogSize = "Log-Size"
	// HeaderMinLogSize is the size of the log from which on a node may answer the request. A
	// node that is behind waits [MinLogSizeWait] for the size, and then answers not-ready.
	HeaderMinLogSize = "Min-Log-Size"
)

// MinLogSizeWait is how long a node waits for the size that a request needs.
const MinLogSizeWait = 2 * time.Second

// Limits of a request's body.
const (
	// MaxBatchLines is the number of envelopes in one NDJSON batch.
	MaxBatchLines = 4096
	// MaxBatchBytes is the size of an NDJSON batch.
	MaxBatchBytes = 64 << 20
)

// Envelope is the DSSE envelope of an entry. Its JSON is the canonical one.
type Envelope struct {
	Payload     []byte      `json:"payload" doc:"the signed object, base64"`
	PayloadType string      `json:"payloadType" doc:"application/vnd.agent-recovery.<kind>+json"`
	Signatures  []Signature `json:"signatures" doc:"exactly one"`
}

// Signature is the signature of an envelope.
type Signature struct {
	KeyID string `json:"keyid" doc:"OpenSSH SHA-256 fingerprint of the key"`
	Sig   []byte `json:"sig" doc:"over the DSSE pre-authentication encoding, base64"`
}

// NewEnvelope returns the envelope of e.
func NewEnvelope(e *entry.Entry) Envelope {
	return Envelope{Payload: e.Payload(), PayloadType: e.Kind.PayloadType(), Signatures: []Signature{{KeyID: e.KeyID, Sig: e.Sig}}}
}

// Entry is an entry where it stands in the log. It never changes.
type Entry struct {
	Index        uint64      `json:"index" doc:"position in the log, from 0"`
	RegisteredAt int64       `json:"registered_at" doc:"when the ledger registered the entry, Unix milliseconds"`
	LeafHash     merkle.Hash `json:"leaf_hash" doc:"RFC 6962 hash of the entry's leaf, base64"`
	Envelope     Envelope    `json:"envelope"`
}

// Item is an entry with the proof that it stands in the log, under the tree
// head that comes with it.
type Item struct {
	Entry
	Proof []merkle.Hash `json:"proof" doc:"inclusion proof, from the leaf's sibling to the root's child"`
}

// Receipt returns the receipt of the item under the signed head it came with.
// The error is an [*entry.Refusal] if its envelope is not one.
func (i *Item) Receipt(head string) (verify.Receipt, error) {
	envelope, err := json.Marshal(&i.Envelope)
	if err != nil {
		return verify.Receipt{}, entry.Refuse(entry.Malformed, "envelope", "%v", err)
	}
	e, err := entry.Decode(envelope)
	if err != nil {
		return verify.Receipt{}, err
	}
	return verify.Receipt{Leaf: e.AppendLeaf(nil, i.RegisteredAt), Index: i.Index, Proof: i.Proof, Head: head}, nil
}

// Page is the answer of GET /v1/entries.
type Page struct {
	Head    string `json:"head" doc:"signed tree head that every proof of the page leads to"`
	Entries []Item `json:"entries"`
	Next    string `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// BatchHead is the first line of the answer to a batch.
type BatchHead struct {
	Head string `json:"head" doc:"signed tree head that every proof of the answer leads to"`
}

// BatchLine is the answer to a line of a batch that is in the log.
type BatchLine struct {
	Index        uint64        `json:"index" doc:"position in the log, from 0"`
	RegisteredAt int64         `json:"registered_at" doc:"when the ledger registered the entry, Unix milliseconds"`
	Duplicate    bool          `json:"duplicate,omitzero" doc:"whether the entry was in the log before"`
	Proof        []merkle.Hash `json:"proof" doc:"inclusion proof, from the leaf's sibling to the root's child"`
}

// Log is the answer of GET /v1/log. A reader must get the values that it pins from another source.
type Log struct {
	Origin       string   `json:"origin" doc:"name of the log, aud of every entry"`
	VerifierKeys []string `json:"verifier_keys" doc:"note verifier keys of the ledger, Ed25519 first"`
	Size         uint64   `json:"size" doc:"number of entries"`
	// Witnessed is nil where the policy in force names no witnesses.
	Witnessed *Witnessing `json:"witnessed,omitempty" doc:"what the witnesses of the policy in force have cosigned"`
	// Index is nil where the ledger keeps no index.
	Index *IndexStatus `json:"index,omitempty" doc:"what the index covers; absent if the ledger keeps no index"`
}

// IndexStatus is how far the index of a ledger is (docs/index.md). Nothing proves Lag and
// Stopped; the index entry proves the rest.
type IndexStatus struct {
	Size     uint64      `json:"size" doc:"number of entries that the newest index entry covers; 0: the index has read no index entry since the ledger started"`
	Root     merkle.Hash `json:"root" doc:"root of the index over these entries"`
	Subjects uint64      `json:"subjects" doc:"number of subjects in the index"`
	Entry    uint64      `json:"entry" doc:"index of the newest index entry; 0: there is none"`
	Lag      uint64      `json:"lag" doc:"number of entries that no index entry covers"`
	Stopped  string      `json:"stopped,omitempty" doc:"why the index has stopped; absent while the index follows the log"`
}

// Witnessing is how far witnesses have come.
type Witnessing struct {
	Size      uint64         `json:"size" doc:"size of the newest tree head that the quorum has cosigned; 0: there is none yet"`
	Since     int64          `json:"since" doc:"time of the oldest cosignature in the quorum on this head, Unix seconds"`
	Witnesses []WitnessState `json:"witnesses" doc:"witnesses of the policy in force by name, then witnesses of earlier policies by name"`
	// Lacking is why agents obey nothing now; empty: the quorum's cosignatures are fresh.
	Lacking string `json:"lacking,omitempty" doc:"which witnesses the quorum lacks for a fresh tree head, and why; agents obey no decision meanwhile; absent: none"`
}

// Round is the answer of GET /v1/log/round.
type Round struct {
	Head string        `json:"head" doc:"the tree head to cosign, a signed note"`
	Path []merkle.Hash `json:"path" doc:"RFC 6962 consistency proof from the size asked for; empty for size 0 and for the size of the head"`
}

// Cosigned is the answer of POST /v1/cosignatures.
type Cosigned struct {
	Counted int `json:"counted" doc:"number of witnesses whose cosignature was taken"`
}

// WitnessState is how a witness answers.
type WitnessState struct {
	Name   string `json:"name" doc:"name of the witness in the witness policy"`
	URL    string `json:"url" doc:"submission prefix; empty: no URL is known, and the ledger does not ask the witness"`
	Size   uint64 `json:"size" doc:"size of the newest tree head that the witness cosigned"`
	At     int64  `json:"at" doc:"time of that cosignature, Unix seconds; 0: there is none yet"`
	TookMS int64  `json:"took_ms" doc:"round trip of the newest cosignature in milliseconds"`
	Failed string `json:"failed,omitempty" doc:"why the witness's newest answer is no cosignature; absent: the answer is one"`
	Former bool   `json:"former,omitzero" doc:"whether only an earlier policy names the witness; agents may still follow that policy"`
}

// Agents is the answer of GET /v1/agents.
type Agents struct {
	Size   uint64  `json:"size" doc:"size of the log that the list follows from"`
	Agents []Agent `json:"agents"`
	Next   string  `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}

// Agent is a principal that was ever enrolled.
type Agent struct {
	Principal    entry.Principal `json:"principal"`
	Domain       string          `json:"domain" doc:"domain that answers for the principal"`
	Span         entry.Span      `json:"span" doc:"reach of the principal's checkpoints: workflow or agent"`
	Roles        []entry.Role    `json:"roles" doc:"roles of the principal's valid keys; empty if no key is valid"`
	Capabilities []string        `json:"capabilities"`
	Enrolled     uint64          `json:"enrolled" doc:"index of the agent entry that first enrolled the principal"`
	Keys         []Key           `json:"keys" doc:"keys in the order of their enrolment"`
	Counts       *AgentCounts    `json:"counts,omitempty" doc:"with counts=true in a list: what the log counts of the principal"`
}

// Key is a key that counts, or has counted.
type Key struct {
	KeyID            string          `json:"keyid" doc:"OpenSSH SHA-256 fingerprint of the key"`
	Key              entry.PublicKey `json:"key" doc:"SubjectPublicKeyInfo, base64"`
	Roles            []entry.Role    `json:"roles"`
	Enrolled         uint64          `json:"enrolled" doc:"index of the agent entry that enrolled the key"`
	Revoked          *uint64         `json:"revoked,omitzero" doc:"index from which on the key is not valid"`
	CompromisedSince *uint64         `json:"compromised_since,omitzero" doc:"index from which on the key is not trusted"`
}

// NewAgent returns the facts of the chain about a principal.
func NewAgent(info *verify.AgentInfo) Agent {
	agent := Agent{
		Principal: info.Principal, Domain: info.Domain, Span: info.Span, Roles: info.Roles,
		Capabilities: info.Capabilities, Enrolled: info.Enrolled, Keys: make([]Key, 0, len(info.Keys)),
	}
	for i := range info.Keys {
		k := &info.Keys[i]
		key := Key{KeyID: k.Key.KeyID(), Key: k.Key, Roles: k.Roles, Enrolled: k.Enrolled, CompromisedSince: k.CompromisedSince}
		if k.Revoked != 0 {
			key.Revoked = &k.Revoked
		}
		agent.Keys = append(agent.Keys, key)
	}
	return agent
}

// The events of GET /v1/events.
const (
	EventHead  = "head"  // data is a [HeadEvent]
	EventEntry = "entry" // data is an [Item], the event's id is its index
)

// HeadEvent announces the tree head that the following entries stand under.
type HeadEvent struct {
	Head     string        `json:"head" doc:"signed tree head"`
	Previous uint64        `json:"previous" doc:"size of the head that the stream announced before; 0 in the first event"`
	Path     []merkle.Hash `json:"path" doc:"RFC 6962 consistency proof from previous to the head"`
}

// Status is the answer of GET /healthz, /readyz and /leaderz.
type Status struct {
	Status string `json:"status" enum:"ok,ready,leads"`
}

// Cluster is the answer of GET /v1/cluster: the nodes that keep one log, as one of them knows them.
type Cluster struct {
	Node    string   `json:"node" doc:"the node that answers"`
	Leader  string   `json:"leader,omitempty" doc:"the node that orders the log; absent if this node knows none"`
	Members []Member `json:"members" doc:"the nodes by name"`
}

// Member is a node of a cluster.
type Member struct {
	Name   string `json:"name"`
	URL    string `json:"url" doc:"for clients; empty until the node has said it"`
	Voter  bool   `json:"voter" doc:"whether it counts for a majority; a node that joins does not yet"`
	Leader bool   `json:"leader" doc:"whether it orders the log"`
	Size   uint64 `json:"size" doc:"entries that it has on its disk, as of the last second"`
	Lag    uint64 `json:"lag" doc:"entries that another node has on its disk, and this one lacks"`
}

// DecodeBatchLine reads a line of the answer to a batch behind the first: a
// result, or the problem that ends the batch.
func DecodeBatchLine(line []byte) (*BatchLine, *Problem, error) {
	var both struct {
		BatchLine `json:",inline"`
		Type      string `json:"type"`
	}
	line = bytes.TrimSpace(line)
	if err := json.Unmarshal(line, &both); err != nil {
		return nil, nil, err
	}
	if both.Type == "" {
		return &both.BatchLine, nil, nil
	}
	problem := new(Problem)
	if err := json.Unmarshal(line, problem); err != nil {
		return nil, nil, err
	}
	return nil, problem, nil
}

// EvidencePage is the answer of GET /v1/evidence: evidence against agents, each with everything
// that a verifier needs beside the pinned root.
type EvidencePage struct {
	Evidence []verify.Evidence `json:"evidence" doc:"documents of evidence, the oldest first"`
	Next     string            `json:"next,omitempty" doc:"path of the next page; absent on the last page"`
}
