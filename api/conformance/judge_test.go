package conformance_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// TestMain lets the test binary be the verifier or the agent under test.
func TestMain(m *testing.M) {
	if behavior, is := os.LookupEnv("AGENT"); is {
		os.Exit(runTarget(behavior))
	}
	if behavior, is := os.LookupEnv("VERIFIER"); is {
		judgeAll(behavior)
		return
	}
	os.Exit(m.Run())
}

// asked is a question as docs/conformance.md describes it.
type asked struct {
	ID           string `json:"id"`
	Group        string `json:"group"`
	Kind         string `json:"kind"`
	Input        []byte `json:"input"`
	Key          string `json:"key"`
	Sig          []byte `json:"sig"`
	Index        uint64 `json:"index"`
	RegisteredAt int64  `json:"registered_at"`
	Bundle       []byte `json:"bundle"`
	Accepted     string `json:"accepted"`
	Now          int64  `json:"now"`

	Evidence  []byte            `json:"evidence"`
	History   []byte            `json:"history"`
	Root      json.RawMessage   `json:"root"` // of the group prefix, a hash
	Questions []verify.Question `json:"questions"`
}

type verdict struct {
	ID          string         `json:"id"`
	Refused     string         `json:"refused"`
	Result      map[string]any `json:"result,omitempty"`
	Unsupported string         `json:"unsupported,omitempty"`
}

// judgeAll is a verifier made of verify/bundle, ledger/entry and merkle, which behaves as it is
// told.
func judgeAll(behavior string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 8<<20)
	for count := 0; in.Scan(); count++ {
		var q asked
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			panic(err)
		}
		v := judge(&q)
		v.ID = q.ID
		if fault, is := strings.CutPrefix(behavior, "fault "); is {
			faults[fault](&v)
		}
		switch {
		case behavior == "hangs" && count == 2:
			<-time.After(math.MaxInt64) // select {} is a deadlock: the runtime ends the process
		case behavior == "crashes" && count == 2:
			os.Exit(3)
		case behavior == "garbage" && count == 2:
			fmt.Println("Segmentation fault")
			continue
		case behavior == "order" && count == 2:
			v.ID = "bundle/another"
		case behavior == "silent" && count == 2:
			fmt.Printf("{\"id\":%q}\n", q.ID)
			continue
		case behavior == "long" && count == 2:
			fmt.Println(strings.Repeat("x", 5<<20))
			continue
		}
		line, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", line)
	}
}

func judge(q *asked) verdict {
	switch q.Group {
	case "bundle":
		return judgeBundle(q)
	case "evidence":
		return judgeEvidence(q)
	case "history":
		return judgeHistory(q)
	case "envelope", "payload", "subjects":
		var e *entry.Entry
		var err error
		if q.Group == "envelope" {
			e, err = entry.Decode(q.Input)
		} else {
			e, err = entry.NewRaw(entry.Kind(q.Kind), q.Input)
		}
		if err != nil || q.Group == "payload" && q.Key == "" {
			return refused(err)
		}
		if q.Group == "subjects" {
			return verdict{Result: map[string]any{"subjects": e.Subjects(q.Index)}}
		}
		return judgeEntry(q, e, q.RegisteredAt)
	case "leaf":
		e, at, err := entry.DecodeLeaf(q.Input)
		if err != nil {
			return refused(err)
		}
		return judgeEntry(q, e, at)
	case "key":
		var key entry.PublicKey
		if err := key.UnmarshalText(q.Input); err != nil {
			return refused(err)
		}
		algorithm := "ed25519"
		if _, is := key.Crypto().(*ecdsa.PublicKey); is {
			algorithm = "p256"
		}
		return verdict{Result: map[string]any{"keyid": key.KeyID(), "algorithm": algorithm}}
	case "hash":
		var h merkle.Hash
		return refused(h.UnmarshalText(q.Input))
	}
	return verdict{Unsupported: "not judged here"}
}

func refused(err error) verdict {
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return verdict{Refused: string(refusal.Problem)}
	}
	if err != nil {
		return verdict{Refused: "malformed"}
	}
	return verdict{}
}

func judgeEntry(q *asked, e *entry.Entry, at int64) verdict {
	var key entry.PublicKey
	if err := key.UnmarshalText([]byte(q.Key)); err != nil {
		panic(err)
	}
	if q.Group == "payload" {
		e.Seal(key.KeyID(), q.Sig)
	}
	valid := false
	switch key := key.Crypto().(type) {
	case ed25519.PublicKey:
		valid = ed25519.Verify(key, e.PAE(), e.Sig)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(e.PAE())
		valid = ecdsa.VerifyASN1(key, digest[:], e.Sig)
	}
	digest := func(data []byte) string { sum := sha256.Sum256(data); return hex.EncodeToString(sum[:]) }
	return verdict{Result: map[string]any{"pae_sha256": digest(e.PAE()), "envelope_sha256": digest(e.AppendEnvelope(nil)),
		"leaf_hash": merkle.HashLeaf(e.AppendLeaf(nil, at)).String(), "keyid": e.KeyID, "signature_valid": valid}}
}

func judgeBundle(q *asked) verdict {
	b, err := bundle.Decode(q.Bundle)
	if err != nil {
		return verdict{Refused: "form"}
	}
	accepted, err := bundle.DecodeAccepted([]byte(q.Accepted))
	if err != nil {
		panic(err)
	}
	v, err := b.Check(accepted, q.Now)
	if rule, ok := errors.AsType[*bundle.RuleError](err); ok {
		return verdict{Refused: named(rule)}
	}
	if _, ok := errors.AsType[*verify.FormatError](err); ok {
		return verdict{Refused: "form"}
	}
	links, epochs, commands := []uint64{}, []bundle.Epoch{}, []map[string]any{}
	for _, link := range v.Next.Links {
		links = append(links, link.Index)
	}
	for i := range v.Commands {
		commands = append(commands, shown(&v.Commands[i]))
	}
	result := map[string]any{"confirmed": v.Confirmed, "incident": v.Incident, "expires_at": v.ExpiresAt, "commands": commands,
		"links": links, "epochs": append(epochs, v.Next.Epochs...)}
	if v.Next.Root.Since != 0 {
		result["since"] = v.Next.Root.Since
	}
	return verdict{Result: result}
}

func judgeHistory(q *asked) verdict {
	report, missing, refused := judgeFile(q, q.History)
	if refused == "index" {
		refused = fmt.Sprintf("step %d", verify.StepContent)
	}
	if refused != "" {
		return verdict{Refused: refused}
	}
	answers := []any{}
	for _, a := range report.Answers {
		if a.Entries == nil {
			a.Entries = []uint64{}
		}
		answers = append(answers, a)
	}
	return verdict{Result: map[string]any{"answers": answers, "missing": missing}}
}

func judgeEvidence(q *asked) verdict {
	report, missing, refused := judgeFile(q, q.Evidence)
	if refused != "" {
		return verdict{Refused: refused}
	}
	return verdict{Result: map[string]any{"equivocations": append([]verify.Equivocation{}, report.Equivocations...), "missing": missing}}
}

// judgeFile verifies a file under the pinned root of a question.
func judgeFile(q *asked, data []byte) (report verify.Report, missing []verify.Step, refused string) {
	m := verify.Material{Questions: q.Questions}
	if err := m.Add("file", data); err != nil {
		return report, nil, "form"
	}
	root, err := verify.ParseRoot(q.Root)
	if err != nil {
		panic(err)
	}
	report, err = root.Verify(m)
	_, fork := errors.AsType[*verify.ForkError](err)
	_, index := errors.AsType[*verify.IndexError](err)
	step, ok := errors.AsType[*verify.StepError](err)
	switch {
	case fork:
		return report, nil, "fork"
	case index:
		return report, nil, "index"
	case ok:
		return report, nil, fmt.Sprintf("step %d", step.Step)
	case err != nil:
		return report, nil, "form"
	}
	missing = []verify.Step{}
	for _, gap := range report.Missing {
		missing = append(missing, gap.Step)
	}
	slices.Sort(missing)
	return report, slices.Compact(missing), ""
}

func shown(c *bundle.Command) map[string]any {
	m := map[string]any{"exec": c.Exec, "method": c.Method, "released": c.Released}
	if c.Digest != "" && c.Refused == nil {
		m["digest"] = c.Digest
	}
	if len(c.Standing) > 0 {
		m["standing"] = c.Standing
	}
	if len(c.Waits) > 0 {
		m["waits"] = c.Waits
	}
	if c.Result != "" {
		m["result"] = c.Result
	}
	if c.Refused != nil {
		m["refused"] = named(c.Refused)
	}
	return m
}

func named(e *bundle.RuleError) string {
	return strings.Join(strings.Fields(e.Step+" "+strings.TrimPrefix(e.Rule, e.Step)), " ")
}

// faults are mistakes of a verifier, by name: what the mistake makes of a verdict. A rule's name
// stands for a verifier that lacks the rule.
var faults = func() map[string]func(*verdict) {
	all := map[string]func(*verdict){
		"confirms every head":       change(func(r map[string]any) { r["confirmed"] = true }, "commands"),
		"releases before others":    command("released", func(any) any { return true }),
		"releases nothing":          command("released", func(any) any { return false }),
		"forgets links":             change(func(r map[string]any) { r["links"] = []uint64{} }, "links"),
		"forgets epochs":            change(func(r map[string]any) { r["epochs"] = []bundle.Epoch{} }, "epochs"),
		"another digest of the PAE": change(func(r map[string]any) { r["pae_sha256"] = strings.Repeat("0", 64) }, "pae_sha256"),
		"believes signatures":       change(func(r map[string]any) { r["signature_valid"] = true }, "signature_valid"),
		"forgets the deadline":      change(func(r map[string]any) { r["expires_at"] = 1 << 50 }, "expires_at"),
		"obeys refused members":     command("refused", func(any) any { return nil }),
	}
	for _, rule := range []string{"AGT-1", "AGT-2 ABS-1", "AGT-2 ABS-2", "AGT-2 ABS-3", "AGT-2 ABS-4", "AGT-2 INC-2", "AGT-2 INC-3", "AGT-2 INC-5",
		"AGT-2 INC-6", "AGT-2 INC-7", "AGT-2 SCO-3", "AGT-2 SCO-5", "AGT-2 TRU-1", "AGT-2 TRU-2", "AGT-2 TRU-3", "AGT-2 TRU-4", "AGT-2 TRU-5",
		"AGT-2", "form", "malformed", "too-large", "unsupported-alg"} {
		all["lacks "+rule] = func(v *verdict) {
			if v.Refused == rule {
				v.Refused = ""
			}
		}
	}
	return all
}()

// change changes the results that have a member.
func change(to func(map[string]any), member string) func(*verdict) {
	return func(v *verdict) {
		if v.Result[member] != nil {
			to(v.Result)
		}
	}
}

// command changes a member of all commands that have the member; nil takes it away.
func command(member string, to func(any) any) func(*verdict) {
	return func(v *verdict) {
		commands, _ := v.Result["commands"].([]map[string]any)
		for _, c := range commands {
			if old, has := c[member]; has {
				c[member] = to(old)
				if c[member] == nil {
					delete(c, member)
				}
			}
		}
	}
}
