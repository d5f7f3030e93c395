package verify_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// scene is a random log, and another one that begins as it does.
type scene struct {
	*testing.T
	random *rand.Rand
	people []testlog.Key
	logs   [2]*testlog.Log
	vkeys  []string // further keys of the ledger
	more   []note.Signer
	said   [2]map[uint64]*entry.Execution
	// payloads are those of other kinds, to be given another issuer.
	payloads []payload
}

func newScene(t *testing.T, random *rand.Rand) *scene {
	t.Helper()
	s := &scene{T: t, random: random, payloads: payloads(t)}
	for _, name := range []entry.Principal{"authority", "enroller", "coordinator", "operator", "approver", "monitor", "engine", "agent", "colleague"} {
		s.people = append(s.people, testlog.NewKey(t, name, string(name)))
		s.people = append(s.people, testlog.NewKey(t, name, string(name)+" 2"))
	}
	s.people = append(s.people, testlog.NewP256(t, "agent"))
	for _, name := range []string{"next", "after"} {
		signer, vkey := testlog.LedgerKey(t, testlog.Origin, name)
		s.vkeys, s.more = append(s.vkeys, vkey), append(s.more, signer)
	}
	size := 4 + random.IntN(14)
	for i := range s.logs {
		l := testlog.New(t)
		s.logs[i], s.said[i] = l, map[uint64]*entry.Execution{}
		for range size {
			s.add(i, s.logs[0].Leaves)
		}
	}
	return s
}

func (s *scene) one() testlog.Key { return s.people[s.random.IntN(len(s.people))] }

// rarely is true once in n times.
func (s *scene) rarely(n int) bool { return s.random.IntN(n) == 0 }

// add logs a random entry; to the second log most of those of the first.
func (s *scene) add(which int, first [][]byte) {
	l := s.logs[which]
	if n := len(l.Leaves); which == 1 && n < len(first)-1-s.random.IntN(3) {
		l.AddLeaf(first[n])
		if n == 0 {
			l.Root = s.logs[0].Root
		}
		return
	}
	body, by := s.body(l, len(l.Leaves))
	if s.rarely(30) {
		entry.HeaderOf(body).Aud = "ledger.example/other"
	}
	e := by.Sign(s, body)
	if s.rarely(30) {
		e.Sig[s.random.IntN(len(e.Sig))] ^= 1
	}
	if s.rarely(40) {
		l.At -= 2000
	}
	if index := l.Add(e); e.Kind == entry.KindExecution {
		s.said[which][index] = body.(*entry.Execution) //nolint:forcetypeassert // of this kind
	}
}

// body is what is to be logged at an index: mostly by who may.
func (s *scene) body(l *testlog.Log, index int) (entry.Body, testlog.Key) {
	authority, enroller := s.people[0], s.people[2]
	switch {
	case index == 0:
		p := l.Policy(authority, authority)
		s.witnessed(p)
		return p, authority
	case index < 4:
		about := s.people[2*index]
		roles := map[entry.Principal]entry.Role{"enroller": entry.RoleEnroller, "coordinator": entry.RoleCoordinator, "operator": entry.RoleOperator, "approver": entry.RoleApprover}
		role := roles[about.Principal]
		if index == 1 {
			about, role = enroller, entry.RoleEnroller
		}
		return l.Agent(authority, entry.Enrol, about, role), authority
	case s.rarely(8):
		return s.policy(l), authority
	case s.rarely(2):
		return s.agent(l)
	}
	by := s.one()
	return s.work(l, by), by
}

func (s *scene) witnessed(p *entry.Policy) {
	if s.rarely(4) {
		p.LedgerKeys = []string{s.logs[0].Root.LedgerKeys[0]}
		if s.rarely(2) {
			p.LedgerKeys = append(p.LedgerKeys, s.vkeys[s.random.IntN(2)])
		}
	}
}

func (s *scene) policy(l *testlog.Log) entry.Body {
	p := l.Policy(s.people[0], s.people[0])
	if s.rarely(3) {
		p.Authority = append(p.Authority, entry.AuthorityKey{Principal: s.people[1].Principal, Key: s.people[1].Public})
	}
	s.witnessed(p)
	for i, leaf := range slices.Backward(l.Leaves) {
		e, at, err := entry.DecodeLeaf(leaf)
		if err == nil && e.Kind == entry.KindPolicy && !s.rarely(6) {
			p.Previous = &entry.LogRef{Index: uint64(i), LeafHash: e.LeafHash(at)}
			break
		}
	}
	if s.rarely(4) {
		p.LedgerKeys = s.vkeys[:1+s.random.IntN(2)]
	}
	return p
}

func (s *scene) agent(l *testlog.Log) (entry.Body, testlog.Key) {
	by := s.people[2*s.random.IntN(2)]
	if s.rarely(5) {
		by = s.one()
	}
	about := s.one()
	roles := []entry.Role{entry.RoleAgent}
	if s.rarely(2) {
		all := entry.Roles()
		roles = []entry.Role{all[s.random.IntN(len(all))]}
	}
	a := l.Agent(by, []entry.AgentOp{entry.Enrol, entry.Enrol, entry.Enrol, entry.Rotate, entry.Revoke}[s.random.IntN(5)], about, roles...)
	if a.Op == entry.Revoke && s.rarely(2) {
		a.CompromisedSince = &entry.Compromised{Index: uint64(s.random.IntN(12))}
	}
	if s.rarely(8) {
		a.Span = entry.SpanAgent
	}
	return a, by
}

// work is an entry of any other kind, out of the vectors, by somebody else for this ledger.
func (s *scene) work(l *testlog.Log, by testlog.Key) entry.Body {
	if s.rarely(2) {
		return l.Execution(by)
	}
	v := s.payloads[s.random.IntN(len(s.payloads))]
	h := l.Work(by.Principal)
	v.payload["iss"], v.payload["jti"], v.payload["aud"] = h.Iss, h.JTI, h.Aud
	data, err := json.Marshal(v.payload)
	must(s, err)
	e, err := entry.NewRaw(v.kind, data)
	must(s, err)
	return e.Body
}

type payload struct {
	kind    entry.Kind
	payload map[string]any
}

// payloads returns the payloads of all vectors of a kind that are accepted.
func payloads(t *testing.T) (list []payload) {
	t.Helper()
	for _, kind := range []entry.Kind{entry.KindCheckpoint, entry.KindSignal, entry.KindDecision, entry.KindApproval, entry.KindOutcome,
		entry.KindRecord, entry.KindTask, entry.KindAttempt, entry.KindRun, entry.KindIndex} {
		files, err := filepath.Glob(filepath.Join("..", "testdata", "vectors", "payload", string(kind), "*.json"))
		must(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			must(t, err)
			var v struct {
				Input   any    `json:"input"`
				WantErr string `json:"wantErr"`
			}
			must(t, json.Unmarshal(data, &v))
			text, plain := v.Input.(string)
			if v.WantErr != "" || !plain {
				continue
			}
			p := payload{kind: kind}
			must(t, json.Unmarshal([]byte(text), &p.payload))
			list = append(list, p)
		}
	}
	return list
}

// question is a root, and some of what the logs hold.
func (s *scene) question() (root string, files [][]byte) {
	l := s.logs[0]
	pinned := l.Root
	if s.rarely(4) {
		pinned.Witnesses = testlog.WitnessPolicy()
	}
	if s.rarely(6) {
		pinned.Seen = s.signed(0, s.random.IntN(len(l.Leaves)+1))
	}
	if s.rarely(8) {
		pinned.LedgerKeys = append(slices.Clone(pinned.LedgerKeys), s.vkeys[0])
	}
	if s.rarely(8) {
		pinned.LedgerKeys, pinned.Since = s.vkeys[:1], uint64(1+s.random.IntN(len(l.Leaves)))
		pinned.Retired = []verify.RetiredKey{{Key: l.Root.LedgerKeys[0], Size: pinned.Since}}
	}
	data, err := json.Marshal(pinned)
	must(s, err)
	for range 1 + s.random.IntN(3) {
		files = append(files, s.file())
	}
	if s.rarely(2) {
		files = append(files, s.all())
	}
	if s.rarely(3) {
		i := s.random.IntN(len(files))
		files[i] = s.spoil(files[i])
	}
	if s.rarely(40) {
		data = s.spoil(data)
	}
	return string(data), files
}

// signed is the head of a size, by some of the ledger's keys and some witnesses.
func (s *scene) signed(which, size int) string {
	l := s.logs[which]
	text := testlog.HeadText(l.Head(size))
	if s.rarely(20) {
		text += "an extension\n"
	}
	signed := l.SignText(text, s.more[:s.random.IntN(3)]...)
	if s.rarely(20) {
		signed = l.SignText(text, testlog.OtherSigner(s))
	}
	for _, name := range []string{"w1", "w2", "w3"} {
		if s.rarely(2) {
			signed = testlog.Cosigned(signed, name, 1_790_000_000+s.random.Int64N(100))
		}
	}
	return signed
}

// which of the logs: seldom the other one.
func (s *scene) which() int {
	if s.rarely(12) {
		return 1
	}
	return 0
}

func (s *scene) receipt(which int) verify.Receipt {
	l := s.logs[which]
	size := len(l.Leaves)
	if s.rarely(3) {
		size = 1 + s.random.IntN(size)
	}
	r := l.ReceiptAt(uint64(s.random.IntN(size)), size)
	if s.rarely(3) {
		r.Head = s.signed(which, size)
	}
	return r
}

// all is the receipts of most entries, under the newest head.
func (s *scene) all() []byte {
	var lines []string
	for _, r := range s.logs[0].All() {
		if !s.rarely(6) {
			lines = append(lines, encoded(s, r))
		}
	}
	s.random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return []byte(strings.Join(append(lines, ""), "\n"))
}

func (s *scene) file() []byte {
	which := s.which()
	l := s.logs[which]
	size := s.random.IntN(len(l.Leaves) + 1)
	switch s.random.IntN(9) {
	case 0:
		return []byte(s.signed(which, size))
	case 1:
		return s.joining(which, size)
	case 2:
		return []byte(tlogProof(s, s.receipt(which)))
	case 3:
		leaf := l.Leaves[s.random.IntN(len(l.Leaves))]
		return leaf
	case 4:
		return []byte(pageOf(s, l, uint64(s.random.IntN(len(l.Leaves))), uint64(s.random.IntN(len(l.Leaves)))))
	case 5:
		return s.evidenceOf(which, size)
	case 6:
		data, err := json.Marshal(map[string]string{"head": s.signed(which, size)})
		must(s, err)
		return data
	}
	return []byte(encoded(s, s.receipt(which)) + "\n" + encoded(s, s.receipt(which)))
}

// joining is a consistency proof, mostly with its heads.
func (s *scene) joining(which, size int) []byte {
	l := s.logs[which]
	newer := len(l.Leaves)
	if s.rarely(4) {
		newer = size + s.random.IntN(newer-size+1)
	}
	m := l.Joining(size, newer)
	if path := m.Consistency[0].Path; len(path) > 0 && s.rarely(5) {
		path[s.random.IntN(len(path))][0] ^= 1
	}
	text := encoded(s, m.Consistency[0])
	for _, head := range m.Heads {
		data, err := json.Marshal(map[string]string{"head": head})
		must(s, err)
		if !s.rarely(3) {
			text += "\n " + string(data)
		}
	}
	return []byte(text)
}

// evidenceOf is evidence of any kind, true or not.
func (s *scene) evidenceOf(which, size int) []byte {
	l, other := s.logs[which], s.logs[1-which]
	e := forkEvidence("random", s.signed(which, size), s.signed(1-which, len(other.Leaves)))
	switch s.random.IntN(4) {
	case 0:
		if s.rarely(3) {
			e.Older = ""
		} else if s.rarely(3) {
			e.Newer = ""
		}
	case 1:
		if size <= len(other.Leaves) {
			began := other.Head(size).Root
			e.Root, e.Path = &began, other.Consistency(size, len(other.Leaves)).Path
		}
	case 2:
		e = &verify.Evidence{Kind: verify.EvidenceEntry, Problem: entry.StateConflict, Receipts: []verify.Receipt{s.receipt(which)}}
	default:
		r := l.Receipt(uint64(s.random.IntN(len(l.Leaves))))
		envelope := s.one().Sign(s, l.Execution(s.one())).AppendEnvelope(nil)
		if said, ok := s.said[which][r.Index]; ok && !s.rarely(4) {
			again := *said
			again.Exec = "otherwise"
			by := s.one()
			for _, k := range s.people {
				if k.Principal == said.Iss && !s.rarely(4) {
					by = k
				}
			}
			envelope = by.Sign(s, &again).AppendEnvelope(nil)
		}
		e = &verify.Evidence{Kind: verify.EvidenceEquivocation, Receipts: []verify.Receipt{r}, Envelope: envelope}
		if s.rarely(2) {
			e.Receipts = append(e.Receipts, l.All()...)
		}
	}
	data, err := json.Marshal(e)
	must(s, err)
	return data
}

// spoil changes some bytes. An empty file stays empty.
func (s *scene) spoil(file []byte) []byte {
	data := slices.Clone(file)
	for n := 1 + s.random.IntN(2); n > 0 && len(data) > 0; n-- {
		i := s.random.IntN(len(data))
		switch n := min(s.random.IntN(8), len(data)-i); s.random.IntN(4) {
		case 0:
			data[i] ^= 1 << s.random.IntN(8)
		case 1:
			const marks = "{}[]\",:0-1eE. \n\\u\x80\xffA="
			data[i] = marks[s.random.IntN(len(marks))]
		case 2:
			data = slices.Delete(data, i, i+n)
		default:
			data = slices.Insert(data, i, data[i:i+n]...)
		}
	}
	return data
}
