package entry_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

var update = flag.Bool("update", false, "write the vectors of this package anew")

// vectorsDir holds the protocol vectors; its README describes them.
const vectorsDir = "../../testdata/vectors"

// vectorGroups are the groups that this package generates; package merkle
// generates the others.
var vectorGroups = []string{"payload", "envelope", "leaf", "key", "note", "subjects"}

// vector is one case, one file. Members that a group does not use are absent.
type vector struct {
	Desc         string  `json:"desc"`
	Kind         string  `json:"kind,omitempty"`          // payload: of the entry
	Input        any     `json:"input"`                   // text, or parts to be joined
	Key          string  `json:"key,omitempty"`           // the signer's, base64 of the DER
	Sig          string  `json:"sig,omitempty"`           // payload: base64, over the PAE
	RegisteredAt *int64  `json:"registered_at,omitempty"` // of the leaf
	Index        *uint64 `json:"index,omitempty"`         // subjects: of the entry
	WantErr      string  `json:"wantErr"`                 // problem type; empty: accepted
	Field        string  `json:"field,omitempty"`         // the member at fault
	Want         *want   `json:"want,omitempty"`          // of what is accepted
}

// want is what an accepted input leads to.
type want struct {
	PAE       string          `json:"pae_sha256,omitempty"`
	Envelope  string          `json:"envelope_sha256,omitempty"` // of the canonical form
	LeafHash  string          `json:"leaf_hash,omitempty"`
	KeyID     string          `json:"keyid,omitempty"`
	Signature *bool           `json:"signature_valid,omitempty"`
	Algorithm string          `json:"algorithm,omitempty"` // key: of what kind
	Note      string          `json:"note,omitempty"`      // note: signed with the key
	Subjects  []entry.Listing `json:"subjects,omitempty"`  // subjects: where the entry is listed
}

// inputBytes joins the parts of an input:
//
//	"text" · {"repeat": text, "times": n} · {"base64": bytes} · {"encode": parts to be encoded in base64}
func inputBytes(tb testing.TB, input any) []byte {
	tb.Helper()
	switch input := input.(type) {
	case string:
		return []byte(input)
	case []any:
		var all []byte
		for _, part := range input {
			all = append(all, inputBytes(tb, part)...)
		}
		return all
	case map[string]any:
		if text, ok := input["repeat"].(string); ok {
			return bytes.Repeat([]byte(text), int(input["times"].(float64)))
		}
		if text, ok := input["base64"].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(text)
			must(tb, err)
			return raw
		}
		if parts, ok := input["encode"]; ok {
			return []byte(base64.StdEncoding.EncodeToString(inputBytes(tb, parts)))
		}
	}
	tb.Fatalf("input %v", input)
	return nil
}

// The parts of an input, as a decoder of the file sees them.
func parts(list ...any) []any { return list }
func repeat(text string, times int) any {
	return map[string]any{"repeat": text, "times": float64(times)}
}
func rawBytes(raw string) any {
	return map[string]any{"base64": base64.StdEncoding.EncodeToString([]byte(raw))}
}
func encoded(list ...any) any      { return map[string]any{"encode": list} }
func sha256Hex(data []byte) string { sum := sha256.Sum256(data); return hex.EncodeToString(sum[:]) }
func problemOf(err error) (problem, field string) {
	if err == nil {
		return "", ""
	}
	refusal, ok := errors.AsType[*entry.Refusal](err)
	if !ok {
		return err.Error(), ""
	}
	return string(refusal.Problem), refusal.Field
}

// vectorSet collects the vectors that this package generates, by file name.
type vectorSet struct {
	t     testing.TB
	files map[string]*vector
}

func (s *vectorSet) add(name string, v *vector) {
	s.t.Helper()
	if s.files[name] != nil {
		s.t.Fatalf("two vectors named %s", name)
	}
	s.files[name] = v
}

// generateVectors makes all vectors of this package; the same ones every time.
func generateVectors(tb testing.TB) map[string]*vector {
	tb.Helper()
	s := &vectorSet{t: tb, files: map[string]*vector{}}
	s.addPayloadKinds()
	s.addPayloadRules()
	s.addEnvelopes()
	s.addSignatures()
	s.addLeaves()
	s.addKeys()
	s.addNotes()
	s.addSubjects()
	return s.files
}

// TestVectorFiles compares the files with what is generated; with -update it
// writes them. The difference is to be read before it is committed.
func TestVectorFiles(t *testing.T) {
	generated := generateVectors(t)
	onDisk := map[string]string{}
	for _, group := range vectorGroups {
		if *update {
			must(t, os.RemoveAll(filepath.Join(vectorsDir, group)))
		}
		maps.Copy(onDisk, readVectorFiles(t, group))
	}
	for name, v := range generated {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		must(t, encoder.Encode(v))
		if *update {
			file := filepath.Join(vectorsDir, name+".json")
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, os.WriteFile(file, text.Bytes(), 0o644))
		} else if onDisk[name] != text.String() {
			t.Errorf("%s: the file says\n%s\nwant\n%s", name, onDisk[name], text.String())
		}
		delete(onDisk, name)
	}
	for name := range onDisk {
		t.Errorf("%s: nothing generates this file", name)
	}
	t.Logf("%d vectors", len(generated))
}

// readVectorFiles returns the texts of a group's files by name.
func readVectorFiles(tb testing.TB, group string) map[string]string {
	tb.Helper()
	files := map[string]string{}
	root := os.DirFS(vectorsDir)
	err := fs.WalkDir(root, group, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || path.Ext(name) != ".json" {
			return err
		}
		text, err := fs.ReadFile(root, name)
		files[strings.TrimSuffix(name, ".json")] = string(text)
		return err
	})
	must(tb, err)
	return files
}

// vectorsOf yields the vectors of a group by file name, as read from their files.
func vectorsOf(tb testing.TB, group string) iter.Seq2[string, *vector] {
	tb.Helper()
	files := readVectorFiles(tb, group)
	if len(files) == 0 {
		tb.Fatalf("no vector in %s", group)
	}
	return func(yield func(string, *vector) bool) {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			v := new(vector)
			decoder := json.NewDecoder(strings.NewReader(files[name]))
			decoder.DisallowUnknownFields()
			must(tb, decoder.Decode(v))
			if !yield(name, v) {
				return
			}
		}
	}
}

func TestVectorsPayload(t *testing.T) {
	for name, v := range vectorsOf(t, "payload") {
		t.Run(name, func(t *testing.T) {
			e, err := entry.NewRaw(entry.Kind(v.Kind), inputBytes(t, v.Input))
			requireRefusal(t, v, err)
			if err != nil {
				return
			}
			sig, err := base64.StdEncoding.DecodeString(v.Sig)
			must(t, err)
			e.Seal(v.Want.KeyID, sig)
			requireWant(t, v, e)
			again, err := entry.Decode(e.AppendEnvelope(nil))
			must(t, err)
			requireWant(t, v, again)
		})
	}
}

// TestVectorsEnvelope holds to the draft: ENV-1.
func TestVectorsEnvelope(t *testing.T) {
	for name, v := range vectorsOf(t, "envelope") {
		t.Run(name, func(t *testing.T) {
			e, err := entry.Decode(inputBytes(t, v.Input))
			requireRefusal(t, v, err)
			if err == nil {
				requireWant(t, v, e)
			}
		})
	}
}

func TestVectorsLeaf(t *testing.T) {
	for name, v := range vectorsOf(t, "leaf") {
		t.Run(name, func(t *testing.T) {
			e, at, err := entry.DecodeLeaf(inputBytes(t, v.Input))
			requireRefusal(t, v, err)
			if err != nil {
				return
			}
			if at != *v.RegisteredAt {
				t.Errorf("registered at %d, want %d", at, *v.RegisteredAt)
			}
			requireWant(t, v, e)
		})
	}
}

func requireRefusal(t *testing.T, v *vector, err error) {
	t.Helper()
	if problem, field := problemOf(err); problem != v.WantErr || field != v.Field {
		t.Fatalf("%s: %v (problem %q at %q), want %q at %q", v.Desc, err, problem, field, v.WantErr, v.Field)
	}
}

func requireWant(t *testing.T, v *vector, e *entry.Entry) {
	t.Helper()
	got := wantOf(t, e, v.Key, *v.RegisteredAt)
	if *got.Signature != *v.Want.Signature {
		t.Errorf("signature valid: %v, want %v", *got.Signature, *v.Want.Signature)
	}
	got.Signature = v.Want.Signature
	if !reflect.DeepEqual(got, v.Want) {
		t.Errorf("%s: got %+v, want %+v", v.Desc, got, v.Want)
	}
}

// wantOf computes what an accepted entry leads to.
func wantOf(tb testing.TB, e *entry.Entry, key string, registeredAt int64) *want {
	tb.Helper()
	valid := signatureValid(tb, key, e)
	leaf := e.AppendLeaf(nil, registeredAt)
	return &want{
		PAE:       sha256Hex(e.PAE()),
		Envelope:  sha256Hex(e.AppendEnvelope(nil)),
		LeafHash:  merkle.HashLeaf(leaf).String(),
		KeyID:     e.KeyID,
		Signature: &valid,
	}
}

// signatureValid gives the verdict of the standard library.
func signatureValid(tb testing.TB, key string, e *entry.Entry) bool {
	tb.Helper()
	var public entry.PublicKey
	must(tb, public.UnmarshalText([]byte(key)))
	switch key := public.Crypto().(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, e.PAE(), e.Sig)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(e.PAE())
		return ecdsa.VerifyASN1(key, digest[:], e.Sig)
	}
	tb.Fatalf("a key of type %T", public.Crypto())
	return false
}
