package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// An ect file is execution context tokens (draft-nennemann-wimse-ect), a JWS in its compact form a
// line. A token is the signed record of one step, which is over.
//
//   - A case is the tokens of a workflow (wid), or those of the file that name none.
//   - A step is a token. Its id is jti, its tool exec_act, its agent iss.
//   - It depends hard on the tokens in pred (par, in older tokens): a token does not tell hard from
//     soft. Each of them stands in the file, in the same workflow, before the token or behind it.
//   - Its effect is undeclared: a token says nothing of it.
//   - inp_hash and out_hash are digests of input and output.
//   - Its outcome is ok, and nothing is known of the run as a whole.
//
// Other claims have no place in a log: aud, exp and iat are about the token, ext is free.
type ectClaims struct {
	Iss     string   `json:"iss"`
	JTI     string   `json:"jti"`
	WID     string   `json:"wid"`
	ExecAct string   `json:"exec_act"`
	Pred    []string `json:"pred"`
	Par     []string `json:"par"`
	InpHash string   `json:"inp_hash"`
	OutHash string   `json:"out_hash"`
}

// TokenKeys are the public keys that tokens are checked by, as a JSON Web Key Set.
type TokenKeys struct{ set jose.JSONWebKeySet }

// ParseTokenKeys reads a JSON Web Key Set. Each key has an id, which tokens name as kid.
func ParseTokenKeys(data []byte) (*TokenKeys, error) {
	var k TokenKeys
	if wrong := scenario.DecodeRecord(data, &k.set); wrong != nil {
		return nil, wrong
	}
	for i, key := range k.set.Keys {
		if key.KeyID == "" || !key.IsPublic() {
			return nil, scenario.Malformed(fmt.Sprintf("/keys/%d", i), "is not a public key with a kid", "write each public key with the kid that tokens name")
		}
	}
	if len(k.set.Keys) == 0 {
		return nil, scenario.Malformed("/keys", "is missing or empty", "write the issuers' public keys as a JSON Web Key Set")
	}
	return &k, nil
}

// token is a token of the file.
type token struct {
	rec  record
	step scenario.Step
	pred []string
}

// workflow is the tokens of a workflow, in the order of the file.
type workflow struct {
	name   string
	rec    record // of its first token
	tokens []*token
	byID   map[string]*token
}

// ImportTokens reads a file of execution context tokens as [Import] does. With keys, it
// checks the signature of each token. Without keys it checks none.
func ImportTokens(name string, r io.Reader, keys *TokenKeys, counts *Counts) iter.Seq2[scenario.Case, error] {
	return func(yield func(scenario.Case, error) bool) {
		s := newSource(name, r)
		s.counts, counts.unit = counts, "tokens"
		e := ectReader{source: s, keys: keys, byName: map[string]*workflow{}, ids: map[string]int{}}
		if e.read(yield) {
			e.give(yield)
		}
		for _, unread := range e.order { // nobody wants them any more
			e.source.counts.Records -= len(unread.tokens)
		}
	}
}

// ectReader collects the tokens of a file.
type ectReader struct {
	source *source
	keys   *TokenKeys
	order  []*workflow
	byName map[string]*workflow
	ids    map[string]int // jti to record
}

// read reads all tokens. It reports false if nothing more is to be yielded.
func (e *ectReader) read(yield func(scenario.Case, error) bool) bool {
	lines := bufio.NewScanner(e.source.in)
	lines.Buffer(nil, tokenMax+1)
	refuse := func(rec record, wrong *scenario.Error) bool {
		wrong.File, wrong.Record, wrong.Line = e.source.file, rec.number, rec.line
		return yield(scenario.Case{}, wrong)
	}
	rec := record{}
	for lines.Scan() && e.source.in.Err == nil { // before an error the scanner gives a part of a line
		rec.line++
		e.source.in.Begin(nil)
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		rec.number++
		e.source.counts.Records++
		if rec.number > tokensMax {
			refuse(rec, tooLarge("split the file by workflows", "is one of more than %d tokens", tokensMax))
			return false
		}
		if wrong := e.take(rec, string(text)); wrong != nil && !refuse(rec, wrong) {
			return false
		}
	}
	rec.line++
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		rec.number++
		e.source.counts.Records++
		refuse(rec, tooLarge("write one token a line", "is larger than %d bytes", tokenMax))
		return false
	case err != nil:
		yield(scenario.Case{}, fmt.Errorf("importer: read %s: %w", e.source.file, err))
		return false
	case rec.number == 0:
		refuse(record{}, scenario.Malformed("", "holds no token", "pass the right file, and check that the file is complete"))
		return false
	}
	return true
}

// take puts a token into its workflow.
func (e *ectReader) take(rec record, text string) *scenario.Error {
	claims, wrong := e.open(text)
	if wrong != nil {
		return wrong
	}
	step, wrong := claims.step()
	if wrong != nil {
		return wrong
	}
	if first, ok := e.ids[claims.JTI]; ok {
		return &scenario.Error{Problem: entry.IDConflict, Field: "/jti", Detail: fmt.Sprintf("is %q, which already came with record %d", scenario.Cut(claims.JTI, scenario.ToolMax), first),
			Remedy: "pass each token once"}
	}
	e.ids[claims.JTI] = rec.number
	w := e.byName[claims.WID]
	if w == nil {
		w = &workflow{name: claims.WID, rec: rec, byID: map[string]*token{}}
		e.byName[claims.WID] = w
		e.order = append(e.order, w)
	}
	if len(w.tokens) == scenario.StepsMax {
		return tooManySteps()
	}
	one := &token{rec: rec, step: step, pred: slices.Concat(claims.Pred, claims.Par)}
	w.tokens = append(w.tokens, one)
	w.byID[claims.JTI] = one
	return nil
}

// open reads a token, and checks its type, its algorithm and, with keys, its signature.
func (e *ectReader) open(text string) (*ectClaims, *scenario.Error) {
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.RS256})
	if err != nil {
		return nil, scenario.Malformed("", "is not a token: "+scenario.Cut(err.Error(), scenario.ToolMax), "write a JWS in its compact form, signed by a public-key algorithm")
	}
	header := signed.Signatures[0].Protected
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); typ != "exec+jwt" && typ != "wimse-exec+jwt" {
		return nil, scenario.Malformed("", fmt.Sprintf("has the type %q", scenario.Cut(typ, scenario.ToolMax)), "pass execution context tokens, whose typ is exec+jwt or wimse-exec+jwt")
	}
	payload := signed.UnsafePayloadWithoutVerification()
	if e.keys != nil {
		if payload, err = signed.Verify(&e.keys.set); err != nil {
			return nil, &scenario.Error{Problem: entry.BadSignature, Detail: fmt.Sprintf("is not signed by the key %q of the key set", scenario.Cut(header.KeyID, scenario.ToolMax)),
				Remedy: "add the issuer's public key to the key set"}
		}
	}
	var claims ectClaims
	if wrong := scenario.DecodeRecord(payload, &claims); wrong != nil {
		return nil, wrong
	}
	return &claims, nil
}

// step is the step of a token, without its parents.
func (c *ectClaims) step() (step scenario.Step, wrong *scenario.Error) {
	for _, claim := range []struct{ name, value string }{{"iss", c.Iss}, {"jti", c.JTI}, {"exec_act", c.ExecAct}} {
		if claim.value == "" {
			return step, scenario.Malformed("/"+claim.name, "is missing or empty", "an execution context token has iss, jti and exec_act")
		}
	}
	step = scenario.Step{ID: scenario.LocalID(c.JTI), Agent: principal(ECT, c.Iss), Tool: c.ExecAct, Effect: entry.EffectUndeclared,
		Attempt: scenario.Attempt{Outcome: scenario.OK}}
	if step.InputDigest, wrong = hashClaim("/inp_hash", c.InpHash); wrong == nil {
		step.OutputDigest, wrong = hashClaim("/out_hash", c.OutHash)
	}
	if wrong == nil {
		wrong = checkStep(step)
	}
	return step, wrong
}

// hashClaim is the digest that a claim holds, if it is there.
func hashClaim(field, text string) (entry.Digest, *scenario.Error) {
	if text == "" {
		return "", nil
	}
	sum, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sum) != 32 {
		return "", scenario.Malformed(field, fmt.Sprintf("holds %q", scenario.Cut(text, scenario.ToolMax)), "write a SHA-256 in base64url without padding, or leave it out")
	}
	return entry.DigestFrom(sum), nil
}

// give yields the workflows, and takes each out of the order.
func (e *ectReader) give(yield func(scenario.Case, error) bool) {
	for len(e.order) > 0 {
		w := e.order[0]
		e.order = e.order[1:]
		name := cmp.Or(w.name, stem(e.source.file))
		c := scenario.Case{ID: scenario.LocalID(name), Workflow: workflowID(ECT, name), Source: string(ECT), Outcome: scenario.NotObserved}
		steps, wrong := w.steps(e.ids)
		if wrong == nil {
			c.Steps, c.Agent = steps, steps[0].Agent
			e.source.counts.Taken += len(steps)
		}
		if !e.source.deliver(yield, w.rec, c, wrong) {
			return
		}
	}
}

// steps returns the steps of a workflow, each behind those that it depends on, and otherwise in the
// order of the file.
func (w *workflow) steps(ids map[string]int) ([]scenario.Step, *scenario.Error) {
	var steps []scenario.Step
	waits, next := map[*token]int{}, map[*token][]*token{}
	var ready []*token
	for _, t := range w.tokens {
		slices.Sort(t.pred)
		t.pred = slices.Compact(t.pred)
		for _, id := range t.pred {
			before := w.byID[id]
			if before == nil {
				detail := fmt.Sprintf("of token %s names %q, whose token the file does not hold", t.step.ID, scenario.Cut(id, scenario.ToolMax))
				if at, ok := ids[id]; ok {
					detail = fmt.Sprintf("of token %s names %q, which record %d has in another workflow", t.step.ID, scenario.Cut(id, scenario.ToolMax), at)
				}
				return nil, scenario.Malformed("/pred", detail+"; the workflow is not imported", "pass all tokens of a workflow in one file")
			}
			waits[t]++
			next[before] = append(next[before], t)
			t.step.Parents = append(t.step.Parents, scenario.Parent{Step: before.step.ID, Dep: entry.Hard})
		}
		if wrong := checkStep(t.step); wrong != nil {
			return nil, wrong
		}
		if waits[t] == 0 {
			ready = append(ready, t)
		}
	}
	for len(ready) > 0 {
		t := ready[0]
		ready = ready[1:]
		steps = append(steps, t.step)
		for _, later := range next[t] {
			if waits[later]--; waits[later] == 0 {
				ready = append(ready, later)
			}
		}
	}
	if len(steps) < len(w.tokens) {
		return nil, scenario.Malformed("/pred", "lead from a token back to itself; the workflow is not imported", "pass the tokens as they were issued")
	}
	return steps, nil
}
