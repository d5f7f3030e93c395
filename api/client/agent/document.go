package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The names of documents.
const (
	docAgent    = "agent"
	docAccepted = "accepted"
	docFollowed = "followed"
	docFork     = "fork"
	docWork     = "work-" // and what tells the undertaking
)

// DamageError reports a document of the store that differs from the saved document.
type DamageError struct {
	Name  string
	Cause string
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("agent: document %s of the store: %s (do not restore it from a backup: unfinished members are treated as started)", e.Name, e.Cause)
}

// magic begins every document, before its name and the digest of its content.
const magic = "arl-agent/1 "

// seal makes a document of its content:
//
//	"arl-agent/1 " name " " SHA-256 in hexadecimal LF content
func seal(name string, content []byte) []byte {
	sum := sha256.Sum256(content)
	return append([]byte(magic+name+" "+hex.EncodeToString(sum[:])+"\n"), content...)
}

// unseal returns the content of a document. The error is a [*DamageError].
func unseal(name string, data []byte) ([]byte, error) {
	damaged := func(cause string) ([]byte, error) { return nil, &DamageError{name, cause} }
	if len(data) > MaxDocument {
		return damaged(fmt.Sprintf("%d bytes, the limit is %d", len(data), MaxDocument))
	}
	line, content, _ := bytes.Cut(data, []byte("\n"))
	if text := string(line); text != strings.TrimSuffix(string(seal(name, content)[:len(magic)+len(name)+1+2*sha256.Size]), "\n") {
		if version, _, _ := strings.Cut(text, " "); strings.HasPrefix(text, "arl-agent/") && version+" " != magic {
			return damaged(fmt.Sprintf("of format %.40q, not %q", version, strings.TrimSpace(magic)))
		}
		return damaged("its first line does not match its content")
	}
	return content, nil
}

// encode makes the document of a value. A value has only one form.
func encode(name string, v any) ([]byte, error) {
	content, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("agent: encode document %s: %w", name, err)
	}
	return seal(name, content), nil
}

// decode reads a document that encode has made, and rejects any other.
func decode(name string, data []byte, v any) error {
	content, err := unseal(name, data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, v, json.RejectUnknownMembers(true)); err != nil {
		return &DamageError{name, err.Error()}
	}
	if again, err := json.Marshal(v, json.Deterministic(true)); err != nil || !bytes.Equal(again, content) {
		return &DamageError{name, "not in the one form it is written in"}
	}
	return nil
}

// plainName reports whether a document may have a name.
func plainName(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// value is JSON as it stands in a document.
type value = jsontext.Value
