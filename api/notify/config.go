package notify

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Limits of a notification file.
const (
	MaxFile      = 64 << 10 // bytes
	maxEndpoints = 32
	maxWords     = 64 // in a list of an endpoint
	maxSecrets   = 4 << 10
)

// File is a notification file: who is told of what.
type File struct {
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is told of events, in the order of the log.
type Endpoint struct {
	// Name names the endpoint for ever: what it was told is kept under that name. Lower-case
	// letters, digits and hyphens, at most 64.
	Name string `json:"name"`
	// URL gets each message as an HTTP POST. https, or http on loopback.
	URL string `json:"url,omitzero"`
	// Secret is a file with the secrets that sign messages to URL, a line each: whsec_ and 24 to 64
	// bytes in base64.
	Secret string `json:"secret,omitzero"`
	// Exec is a program and its arguments. It gets each message on standard input, and takes it
	// with exit code 0.
	Exec []string `json:"exec,omitzero"`
	// Events are the types that the endpoint is told of, without their prefix. Empty: all.
	Events []string `json:"events,omitzero"`
	// Workflows are the workflows whose events it is told of, beside events of no workflow. Empty:
	// all.
	Workflows []entry.WorkflowID `json:"workflows,omitzero"`
	// TimeoutMS is the time for one attempt, in milliseconds. Nil: 10,000.
	TimeoutMS *int64 `json:"timeout_ms,omitzero"`
}

func (e *Endpoint) timeout() time.Duration {
	if e.TimeoutMS == nil {
		return 10 * time.Second
	}
	return time.Duration(*e.TimeoutMS) * time.Millisecond
}

// wants reports whether the endpoint is told of an event.
func (e *Endpoint) wants(v *Event) bool {
	return (len(e.Events) == 0 || slices.Contains(e.Events, v.Type)) && (len(e.Workflows) == 0 || v.Workflow == "" || slices.Contains(e.Workflows, v.Workflow))
}

// Parse reads a notification file in YAML. Name is the file's, for errors. The error is a
// [*scenario.Error] with line, field and remedy.
func Parse(name string, text []byte) (*File, error) {
	f := new(File)
	err := scenario.Document{What: "a notification file", Help: "docs/notifications.md lists the members", BytesMax: MaxFile}.DecodeYAML(text, f)
	if err == nil {
		if wrong := placed(name, text, f.check()); wrong != nil {
			return nil, wrong
		}
		return f, nil
	}
	err.File = name
	return nil, err
}

// placed says where in a notification file a mistake is.
func placed(name string, text []byte, wrong *scenario.Error) error {
	if wrong == nil {
		return nil
	}
	wrong.File, wrong.Line = name, scenario.LineInYAML(text, wrong.Field)
	return wrong
}

// CheckFiles looks whether the secrets and the programs are there that the file names. Name and
// text are those of [Parse], as is the error, which does not show a secret.
func (f *File) CheckFiles(name string, text []byte) error {
	for i := range f.Endpoints {
		if wrong := f.Endpoints[i].checkFiles(); wrong != nil {
			return placed(name, text, scenario.Below("/endpoints", i, wrong))
		}
	}
	return nil
}

func (e *Endpoint) checkFiles() *scenario.Error {
	if len(e.Exec) == 0 {
		_, wrong := e.secrets()
		return wrong
	}
	if _, err := exec.LookPath(e.Exec[0]); err != nil {
		return scenario.Malformed("/exec/0", "is no program: "+err.Error(), "write the path of a program that the user of arl serve may run, or its name in PATH")
	}
	return nil
}

func (f *File) check() *scenario.Error {
	if len(f.Endpoints) == 0 || len(f.Endpoints) > maxEndpoints {
		return scenario.Malformed("/endpoints", fmt.Sprintf("has %d endpoints", len(f.Endpoints)), fmt.Sprintf("list 1 to %d endpoints", maxEndpoints))
	}
	names := map[string]bool{}
	for i := range f.Endpoints {
		e := &f.Endpoints[i]
		if err := e.check(); err != nil {
			return scenario.Below("/endpoints", i, err)
		}
		if names[e.Name] {
			return scenario.Below("/endpoints", i, scenario.Malformed("/name", fmt.Sprintf("is %q, as that of another endpoint", e.Name), "give each endpoint a name of its own"))
		}
		names[e.Name] = true
	}
	return nil
}

var endpointName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`) })

func (e *Endpoint) check() *scenario.Error {
	switch {
	case !endpointName().MatchString(e.Name):
		return scenario.Malformed("/name", fmt.Sprintf("is %.80q", e.Name), "write 1 to 64 lower-case letters, digits and hyphens")
	case (e.URL == "") == (len(e.Exec) == 0):
		return scenario.Malformed("", "has not exactly one of url and exec", "write url for an HTTP endpoint, or exec for a program")
	case e.TimeoutMS != nil && (*e.TimeoutMS < 1 || *e.TimeoutMS > 60_000):
		return scenario.Malformed("/timeout_ms", fmt.Sprintf("is %d", *e.TimeoutMS), "write 1 to 60000 milliseconds, or leave it out for 10000")
	case max(len(e.Exec), len(e.Events), len(e.Workflows)) > maxWords:
		return scenario.Malformed("", fmt.Sprintf("has a list of more than %d words", maxWords), "shorten it")
	case len(e.Exec) > 0 && e.Exec[0] == "":
		return scenario.Malformed("/exec/0", "is empty", "name the program")
	case len(e.Exec) > 0 && e.Secret != "":
		return scenario.Malformed("/secret", "signs nothing, since a program is no HTTP endpoint", "remove it")
	case e.URL != "" && e.Secret == "":
		return scenario.Malformed("/secret", "is missing", "name a file with a secret, as docs/notifications.md shows: the receiver checks with it who sent a message")
	}
	for i, name := range e.Events {
		if !slices.Contains(types(), name) {
			return scenario.Malformed(fmt.Sprintf("/events/%d", i), fmt.Sprintf("is %.80q%s", name, entry.Suggest(name, types())), "write one of "+strings.Join(types(), ", "))
		}
	}
	for i, name := range e.Workflows { // one that no entry can have would tell of nothing
		if wrong := scenario.CheckName(fmt.Sprintf("/workflows/%d", i), string(name)); wrong != nil {
			return wrong
		}
	}
	if e.URL != "" {
		return checkURL(e.URL)
	}
	return nil
}

// checkURL wants https, or http to this machine. A message says what went wrong, and where.
func checkURL(text string) *scenario.Error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return scenario.Malformed("/url", "is no URL with https://, a host, and neither user nor fragment", "write the URL of the endpoint, such as https://hooks.example/arl")
	}
	if host := u.Hostname(); u.Scheme == "http" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return scenario.Malformed("/url", "begins with http:// and leaves this machine", "write https://")
	}
	return nil
}

// secrets reads the file of an endpoint's secrets. An error does not show them.
func (e *Endpoint) secrets() (list []string, wrong *scenario.Error) {
	if strings.HasPrefix(e.Secret, secretPrefix) {
		return nil, scenario.Malformed("/secret", "is a secret itself, which others may read here", "write the secret into a file of mode 600, and name the file")
	}
	mistake := func(detail, remedy string) *scenario.Error {
		return scenario.Malformed("/secret", "names "+e.Secret+", "+detail, remedy)
	}
	info, err := os.Stat(e.Secret)
	switch {
	case err != nil:
		return nil, mistake("which cannot be read: "+err.Error(), "make the file, with a secret, as docs/notifications.md shows")
	case !info.Mode().IsRegular():
		return nil, mistake("which is no file", "name a file that has a secret a line")
	case info.Mode().Perm()&0o077 != 0:
		return nil, mistake("which others may read", "chmod 600 "+e.Secret)
	case info.Size() > maxSecrets:
		return nil, mistake(fmt.Sprintf("which has %d bytes, and secrets have at most %d", info.Size(), maxSecrets), "write a secret a line")
	}
	text, err := os.ReadFile(e.Secret)
	if err != nil {
		return nil, mistake("which cannot be read: "+err.Error(), "let the user of arl serve read the file")
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		line = strings.TrimSpace(line)
		raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(line, secretPrefix))
		if !strings.HasPrefix(line, secretPrefix) || err != nil || len(raw) < 24 || len(raw) > 64 {
			return nil, mistake(fmt.Sprintf("whose line %d is no secret", i+1), "write whsec_ and 24 to 64 random bytes in base64")
		}
		list = append(list, line)
	}
	return list, nil
}

const secretPrefix = "whsec_"
