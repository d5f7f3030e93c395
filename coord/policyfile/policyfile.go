// Package policyfile reads and writes policies as operators do: YAML files with the members of a
// policy entry, without the members that signing adds. A mistake in a file is an error with file,
// line, column and remedy.
package policyfile

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/uuid"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/sound"
	"recoveryledger/ledger/entry"
)

// File is a policy as an operator writes it: the members of a policy entry without the members that
// signing adds. Package recovery reads the member recovery of the same file.
type File struct {
	// Authority may be left out: the present authority then stays.
	Authority  []entry.AuthorityKey        `json:"authority,omitempty"`
	Roles      map[entry.Role][]entry.Role `json:"roles"`
	Windows    entry.Windows               `json:"windows"`
	Limits     entry.Limits                `json:"limits"`
	Quotas     entry.Quotas                `json:"quotas"`
	Quorum     entry.Quorum                `json:"quorum"`
	MaxStepMS  int64                       `json:"max_step_ms"`
	Witnesses  string                      `json:"witnesses,omitempty"`
	Index      *entry.IndexPolicy          `json:"index,omitempty"`
	LedgerKeys []string                    `json:"ledger_keys,omitempty"`
	Recovery   any                         `json:"recovery,omitempty"` // a *recovery.Policy, where it can be read
}

// Max is the size of a policy file in bytes; its content must fit an envelope.
const Max = entry.MaxEnvelope

// Obeyable refuses a policy that was read from a file, but that no ledger could
// obey. Such a file can still be compared with another one.
func Obeyable(name string, data []byte, policy *entry.Policy) error {
	refusal := sound.Policy(policy)
	if refusal == nil {
		return nil
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return YAMLError(name, err, policyExample)
	}
	return mistakeOf(name, file, refusal)
}

// mistakeOf is a refusal at its place in the file.
func mistakeOf(name string, file *ast.File, refusal *entry.Refusal) *recovery.Error {
	line, column := place(file, refusal.Field)
	wrong := mistake(name, line, column, refusal.Detail, refusal.Remedy)
	wrong.Problems[0].Field = refusal.Field
	return wrong
}

// Parse reads the content of a policy file. An unknown or missing member is a
// [*recovery.Error] that names file, line and column.
func Parse(name string, data []byte) (*entry.Policy, error) {
	policy, err := parseMembers(name, data)
	if err != nil {
		return nil, err
	}
	if hasRules, _ := policyParts(data); hasRules {
		rules, err := recovery.Load(name, data)
		if err != nil {
			return nil, err
		}
		policy.Recovery = rules.JSON()
	}
	return policy, nil
}

// Succeed completes a policy from a file as the one that replaces the policy in force, which stands
// at previous. Authority and keys of the ledger that the file leaves out stay as they are.
func Succeed(next, inForce *entry.Policy, previous entry.LogRef) {
	if next.Authority == nil {
		next.Authority = inForce.Authority
	}
	if next.LedgerKeys == nil {
		next.LedgerKeys = inForce.LedgerKeys
	}
	next.Previous = &previous
}

// policyParts reports which parts a policy file has: rules of recovery, and
// members that are the ledger's.
func policyParts(data []byte) (rules, ledger bool) {
	var members yaml.MapSlice
	if err := yaml.Unmarshal(data, &members); err != nil {
		return false, false
	}
	known := strings.Fields("authority roles windows limits quotas quorum max_step_ms witnesses index ledger_keys")
	for _, m := range members {
		rules = rules || m.Key == "recovery"
		ledger = ledger || slices.Contains(known, fmt.Sprint(m.Key))
	}
	return rules, ledger
}

// parseMembers is parsePolicy without the rules of recovery.
func parseMembers(name string, data []byte) (*entry.Policy, error) {
	if len(data) > Max {
		return nil, mistake(name, 0, 0, fmt.Sprintf("over the limit of %d bytes", Max), "")
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, YAMLError(name, err, policyExample)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, mistake(name, 1, 1, fmt.Sprintf("%d documents, want one", len(file.Docs)), "")
	}
	body := file.Docs[0].Body
	if err := refuseAliases(name, body); err != nil {
		return nil, err
	}
	var typed File
	if err := yaml.NodeToValue(body, &typed, yaml.Strict()); err != nil {
		return nil, YAMLError(name, err, policyExample)
	}
	var members map[string]any
	if err := yaml.NodeToValue(body, &members); err != nil {
		return nil, YAMLError(name, err, policyExample)
	}
	if len(members) == 0 {
		return nil, mistake(name, 1, 1, "empty", "start from arl policy show")
	}
	delete(members, "recovery")
	policy, err := decodePolicy(members)
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return nil, mistakeOf(name, file, refusal)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return policy, nil
}

// policyExample is the remedy where no other is known.
const policyExample = "arl policy show has an example"

// mistake is one mistake in a policy file; the fix may be empty.
func mistake(name string, line, column int, what, fix string) *recovery.Error {
	return &recovery.Error{Problems: []recovery.Problem{{File: name, Line: line, Column: column, What: what,
		Fix: cmp.Or(fix, policyExample)}}}
}

// anyAuthority is the authority for checks of a file that names no authority.
const anyAuthority entry.Principal = "authority"

// decodePolicy gives the members to the decoder of entries, so that a file and an entry
// obey the same rules. For this it adds the members that signing adds, and removes them
// again.
func decodePolicy(members map[string]any) (*entry.Policy, error) {
	header := entry.Header{V: 1, JTI: uuid.Nil.String(), Iss: anyAuthority, Aud: "policy.file", Iat: 1}
	members["v"], members["jti"], members["iss"], members["aud"], members["iat"] = header.V, header.JTI, header.Iss, header.Aud, header.Iat
	_, named := members["authority"]
	if !named {
		anyKey, err := entry.NewPublicKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public())
		if err != nil {
			return nil, err
		}
		members["authority"] = []entry.AuthorityKey{{Principal: anyAuthority, Key: anyKey}}
	}
	payload, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	e, err := entry.NewRaw(entry.KindPolicy, payload)
	if err != nil {
		return nil, err
	}
	policy, ok := e.Body.(*entry.Policy)
	if !ok {
		return nil, fmt.Errorf("decoded as %T", e.Body)
	}
	policy.Header = entry.Header{}
	if !named {
		policy.Authority = nil
	}
	return policy, nil
}

// Format writes a policy as a file that [Parse] reads.
func Format(p *entry.Policy) ([]byte, error) {
	f, err := New(p)
	if err != nil {
		return nil, err
	}
	return yaml.MarshalWithOptions(f, yaml.IndentSequence(true))
}

// New returns a policy as a file.
func New(p *entry.Policy) (*File, error) {
	f := &File{Authority: p.Authority, Roles: p.Roles, Windows: p.Windows, Limits: p.Limits, Quotas: p.Quotas,
		Quorum: p.Quorum, MaxStepMS: p.MaxStepMS, Witnesses: p.Witnesses, Index: p.Index, LedgerKeys: p.LedgerKeys}
	if p.Recovery == nil {
		return f, nil
	}
	if rules, err := recovery.FromEntry(p); err == nil {
		f.Recovery = rules // in the order of the documentation
		return f, nil
	}
	return f, yaml.Unmarshal(p.Recovery, &f.Recovery) // every JSON is YAML; its integers stay integers
}

// refuseAliases refuses YAML that makes a small file large or states a value in two
// places.
func refuseAliases(name string, body ast.Node) (err error) {
	for _, kind := range []ast.NodeType{ast.AnchorType, ast.AliasType, ast.MergeKeyType, ast.TagType} {
		for _, node := range ast.Filter(kind, body) {
			at := node.GetToken().Position
			return mistake(name, at.Line, at.Column, "anchors, aliases, merge keys and tags are not allowed", "write the value out")
		}
	}
	return nil
}

// YAMLError adds to an error of the parser its place in the file, and a remedy if the
// error itself does not name one.
func YAMLError(name string, err error, remedy string) error {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		return mistake(name, 0, 0, err.Error(), "write YAML 1.2")
	}
	position, fix := at.GetToken().Position, remedy
	if unknown, ok := errors.AsType[*yaml.UnknownFieldError](err); ok {
		fix = cmp.Or(strings.Trim(entry.Suggest(unknown.Token.Value, policyMembers()), " ()"), remedy)
	}
	return mistake(name, position.Line, position.Column, at.GetMessage(), fix)
}

// policyMembers are all members that a policy file may have, at any depth.
func policyMembers() []string {
	return strings.Fields(`authority principal key roles agent
		windows decide_ms answer_ms member_ms deadline_max_ms cooldown_ms since_max_ms bundle_max_age_ms iat_ms
		limits incident signaler victim members agents domains fenced_ms window_ms fence
		quotas entries_per_hour signals_per_hour quorum approve override signalers
		max_step_ms witnesses index required ledger_keys recovery`)
}

// place returns where a member stands in the file, or the nearest that holds it.
func place(file *ast.File, field string) (line, column int) {
	for field != "" {
		path, err := yaml.PathString("$." + field)
		if err != nil {
			break
		}
		node, err := path.FilterFile(file)
		if block, ok := node.(*ast.MappingNode); ok && len(block.Values) > 0 {
			node = block.Values[0].Key
		}
		if err == nil && node.GetToken() != nil {
			position := node.GetToken().Position
			return position.Line, position.Column
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return 1, 1
}
