package admission

import (
	"bytes"
	"strconv"
	"time"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// plain is one entry of an agent with effect none.
func (l *play) plain() *entry.Execution {
	return stage.Execution(l.fresh("a"), entry.EffectNone, entry.Confirmed)
}

// registerCases are those of the table of registration, row by row.
func registerCases() []kitCase {
	return []kitCase{
		{"register/receipt", []string{"HTTP-1", "LOG-3"}, "an entry: status 201, a receipt that verifies, and the same entry under its index at once", func(l *play) {
			ref := l.write(l.name("a"), l.plain())
			text, err := l.get("/v1/entries/" + strconv.FormatUint(ref.Index, 10) + "/receipt")
			r, decoded := verify.DecodeReceipt(text)
			if l.err == nil && (err != nil || decoded != nil || merkle.HashLeaf(r.Leaf) != ref.LeafHash) {
				l.fail("the receipt of entry "+strconv.FormatUint(ref.Index, 10), "%v, %v", err, decoded)
			}
		}},
		{"register/again", []string{"REG-2a", "HTTP-1"}, "the same bytes again: status 200 and the first index", func(l *play) {
			e := l.seal(l.name("a"), l.plain())
			l.againAs(e, l.submit(e).Index)
		}},
		{"register/again-after-revocation", []string{"REG-2a", "REG-0"}, "the same bytes again after the key was revoked: status 200 and the first index", func(l *play) {
			l.enrol("brief", entry.RoleAgent)
			e := l.seal(l.name("brief"), stage.Execution(l.fresh("brief"), entry.EffectNone, entry.Confirmed))
			index := l.submit(e).Index
			l.revoke("brief")
			l.againAs(e, index)
		}},
		{"register/id-conflict", []string{"REG-2b"}, "other bytes under one id", func(l *play) {
			first := l.seal(l.name("a"), l.plain())
			l.submit(first)
			other := l.plain()
			other.Header = *first.Header
			l.refused(l.sealed(l.name("a"), other), entry.IDConflict)
		}},
		{"register/audience", []string{"REG-3a"}, "an entry for another ledger", func(l *play) {
			x := l.plain()
			l.seal(l.name("a"), x)
			x.Aud = "elsewhere.example/ledger"
			l.refused(l.sealed(l.name("a"), x), entry.WrongAudience)
		}},
		{"register/unknown-issuer", []string{"ENV-3"}, "an issuer that was never enrolled", func(l *play) {
			l.refuses(l.name("nobody"), stage.Execution(l.fresh("nobody"), entry.EffectNone, entry.Confirmed), entry.UnknownIssuer)
		}},
		{"register/key-of-another", []string{"ENV-3"}, "the key of another principal", func(l *play) {
			e := l.seal(l.name("a"), l.plain())
			l.must(l.signer(l.name("b")).Sign(e))
			l.refused(e, entry.UnknownIssuer)
		}},
		{"register/revoked", []string{"ENV-3"}, "a key that was revoked", func(l *play) {
			l.enrol("gone", entry.RoleAgent)
			l.revoke("gone")
			l.refuses(l.name("gone"), stage.Execution(l.fresh("gone"), entry.EffectNone, entry.Confirmed), entry.UnknownIssuer)
		}},
		{"register/signature", []string{"ENV-8"}, "a signature over other bytes", func(l *play) {
			e, other := l.seal(l.name("a"), l.plain()), l.seal(l.name("a"), l.plain())
			e.Seal(other.KeyID, other.Sig)
			l.refused(e, entry.BadSignature)
		}},
		{"register/stale", []string{"REG-0"}, "iat an hour ago", func(l *play) { l.refused(l.dated(-time.Hour, l.plain()), entry.Stale) }},
		{"register/early", []string{"REG-0"}, "iat in an hour", func(l *play) { l.refused(l.dated(time.Hour, l.plain()), entry.Stale) }},
		{"register/twice-enrolled", []string{"REG-4a"}, "a key that is enrolled for another principal", func(l *play) {
			l.refuses(l.authority, stage.Enrolment(l.name("twin"), l.signer(l.name("a")).Public(), entry.RoleAgent), entry.StateConflict)
		}},
		{"register/carried", []string{"REG-10a"}, "two entries of two agents in one batch, carried by neither: both are registered", func(l *play) {
			l.batch(2, l.seal(l.name("a"), l.plain()), l.seal(l.name("b"), stage.Execution(l.fresh("b"), entry.EffectNone, entry.Confirmed)))
		}},
		{"register/batch", []string{"REG-10"}, "a batch whose second line is refused: the first is registered, the third is not", func(l *play) {
			bad := stage.Execution(l.fresh("a"), entry.EffectNone, entry.Confirmed, "nobody#nothing")
			third := l.seal(l.name("a"), l.plain())
			l.batch(1, l.seal(l.name("a"), l.plain()), l.seal(l.name("a"), bad), third)
			l.submit(third)
		}},
	}
}

// againAs sees that an entry that is sent again gets the first index.
func (l *play) againAs(e *entry.Entry, index uint64) {
	if l.err != nil {
		return
	}
	a := l.post(e.AppendEnvelope(nil), "application/json", true)
	if l.err == nil && (a.status != 200 || a.receipt.Index != index) {
		l.fail("status 200 and the receipt of entry "+strconv.FormatUint(index, 10), "%s", a.text)
	}
}

// revoke has the authority revoke the key of a principal of this run.
func (l *play) revoke(name string) {
	a := stage.Enrolment(l.name(name), l.signer(l.name(name)).Public(), entry.RoleAgent)
	a.Op = entry.Revoke
	l.write(l.authority, a)
}

// dated is an entry that was made at another time.
func (l *play) dated(ago time.Duration, x *entry.Execution) *entry.Entry {
	l.seal(l.name("a"), x)
	x.Iat += int64(ago / time.Second)
	return l.sealed(l.name("a"), x)
}

// batch sends entries as lines, and sees how many of them the log then has.
func (l *play) batch(want int, entries ...*entry.Entry) {
	var body []byte
	for _, e := range entries {
		body = append(e.AppendEnvelope(body), '\n')
	}
	before := l.state.Size()
	a := l.post(body, "application/x-ndjson", true)
	if l.err != nil {
		return
	}
	text, err := l.get("/checkpoint")
	for range 50 { // the published head may be a second behind
		head, _ := l.at.Root.Head(text)
		if err != nil || head.Size >= before+uint64(want) {
			break
		}
		Pause(l.ctx(), 100*time.Millisecond, l.at.Limit)
		text, err = l.get("/checkpoint")
	}
	l.must(err)
	head, err := l.at.Root.Head(text)
	l.must(err)
	if l.err == nil {
		l.must(l.follow(head.Size))
	}
	if l.err == nil && l.state.Size() != before+uint64(want) {
		l.fail(strconv.Itoa(want)+" of the batch in the log", "%d; %s", l.state.Size()-before, a.text)
	}
}

// orderCases hold two faults each: the earlier row of the table answers.
func orderCases() []kitCase {
	return []kitCase{
		{"order/audience-before-signature", []string{"REG-0"}, "another ledger's, and a wrong signature", func(l *play) {
			x := l.plain()
			l.seal(l.name("a"), x)
			x.Aud = "elsewhere.example/ledger"
			e := l.sealed(l.name("a"), x)
			e.Seal(e.KeyID, bytes.Repeat([]byte{1}, len(e.Sig)))
			l.refused(e, entry.WrongAudience)
		}},
		{"order/audience-before-issuer", []string{"REG-0"}, "another ledger's, and an issuer that was never enrolled", func(l *play) {
			x := stage.Execution(l.fresh("nobody"), entry.EffectNone, entry.Confirmed)
			l.seal(l.name("nobody"), x)
			x.Aud = "elsewhere.example/ledger"
			l.refused(l.sealed(l.name("nobody"), x), entry.WrongAudience)
		}},
		{"order/role-before-signature", []string{"REG-0"}, "a role that does not allow the kind, and a wrong signature", func(l *play) {
			e := l.seal(l.name("a"), stage.Enrolment(l.name("x"), l.signer(l.name("x")).Public(), entry.RoleAgent))
			e.Seal(e.KeyID, bytes.Repeat([]byte{1}, len(e.Sig)))
			l.refused(e, entry.UnauthorizedRole)
		}},
		{"order/signature-before-time", []string{"REG-0"}, "a wrong signature, and an old iat", func(l *play) {
			e := l.dated(-time.Hour, l.plain())
			e.Seal(e.KeyID, bytes.Repeat([]byte{1}, len(e.Sig)))
			l.refused(e, entry.BadSignature)
		}},
		{"order/time-before-references", []string{"REG-0"}, "an old iat, and a parent that is not in the log", func(l *play) {
			l.refused(l.dated(-time.Hour, stage.Execution(l.fresh("a"), entry.EffectNone, entry.Confirmed, "nobody#nothing")), entry.Stale)
		}},
	}
}

// roleCases are those of roles that do not allow what is signed.
func roleCases() []kitCase {
	var cases []kitCase
	for _, c := range []struct {
		name, by, about string
		ids             []string
		body            func(l *play) entry.Body
	}{
		{"agent-enrols", "a", "an agent enrols another", []string{"TRU-2"}, func(l *play) entry.Body {
			return stage.Enrolment(l.name("y"), l.signer(l.name("y")).Public(), entry.RoleAgent)
		}},
		{"enroller-grants-more", "enroller", "an enroller enrols a coordinator", []string{"TRU-2"}, func(l *play) entry.Body {
			return stage.Enrolment(l.name("z"), l.signer(l.name("z")).Public(), entry.RoleCoordinator)
		}},
		{"agent-writes-the-policy", "a", "an agent writes the next policy", []string{"TRU-2"}, func(l *play) entry.Body {
			inForce, previous := l.state.Chain().Policy()
			next := *inForce
			next.Previous = &previous
			return &next
		}},
		{"monitor-executes", "monitor", "a monitor logs an execution", []string{"TRU-2"}, func(l *play) entry.Body {
			return stage.Execution(l.fresh("monitor"), entry.EffectNone, entry.Confirmed)
		}},
		{"agent-authorizes", "a", "an agent authorizes", []string{"INC-2a"}, func(l *play) entry.Body {
			return l.drafts(l.opens(l.did("a", entry.EffectCompensable)), entry.ActAuthorize)
		}},
		{"agent-overrides", "a", "an agent overrides", []string{"OVR-1"}, func(l *play) entry.Body {
			_, incident, _ := l.charged()
			return l.drafts(incident, entry.ActOverride)
		}},
		{"coordinator-overrides", "coordinator", "the coordinator overrides", []string{"OVR-1"}, func(l *play) entry.Body {
			_, incident, _ := l.charged()
			return l.drafts(incident, entry.ActOverride)
		}},
		{"agent-approves", "b", "an agent approves", []string{"INC-5"}, func(l *play) entry.Body {
			_, incident, proposal := l.proposed()
			return l.answerTo(incident, proposal, "approve")
		}},
		{"agent-records", "a", "an agent records", []string{"REC-1"}, func(l *play) entry.Body {
			_, incident, _ := l.undone()
			return l.record(incident)
		}},
	} {
		cases = append(cases, kitCase{"role/" + c.name, c.ids, c.about, func(l *play) {
			body := c.body(l)
			l.refuses(l.name(c.by), body, entry.UnauthorizedRole)
		}})
	}
	return cases
}
