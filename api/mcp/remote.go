package mcp

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// versionHeader names the version of the protocol that initialize has agreed on. Every later
// request of a session carries it.
const versionHeader = "Mcp-Protocol-Version"

// versioned adds the version of the protocol to requests that lack it: the SDK adds the version
// only for a client of its own.
type versioned struct {
	mu      sync.Mutex
	version string // that the client asked for in initialize. Guarded by mu
}

// RoundTrip implements [http.RoundTripper].
func (v *versioned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close() // it is read to its end
		v.note(body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	v.mu.Lock()
	version := v.version
	v.mu.Unlock()
	if version != "" && r.Header.Get(versionHeader) == "" {
		r = r.Clone(r.Context())
		r.Header.Set(versionHeader, version)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// note takes the version from a request to initialize.
func (v *versioned) note(body jsontext.Value) {
	var request struct {
		Method string `json:"method"`
		Params struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &request) == nil && request.Method == "initialize" {
		v.mu.Lock()
		v.version = request.Params.ProtocolVersion
		v.mu.Unlock()
	}
}
