package notify_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"recoveryledger/api/notify"
	"recoveryledger/coord/recovery/scenario"
)

func timeout(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), time.Second)
}

const whole = `endpoints:
  - name: pager
    url: https://hooks.example/arl
    secret: pager.secret
    events: [incident.escalated, log.fork]
    workflows: [w]
    timeout_ms: 5000
  - name: hook
    exec: [/usr/local/bin/page, --now]
`

// TestParse reads a whole file, and refuses files with one mistake, with its line and a remedy.
func TestParse(t *testing.T) {
	f, err := notify.Parse("notify.yaml", []byte(whole))
	if err != nil || len(f.Endpoints) != 2 || *f.Endpoints[0].TimeoutMS != 5000 || f.Endpoints[1].Exec[1] != "--now" {
		t.Fatalf("%+v, %v", f, err)
	}
	for _, bad := range []struct{ old, new, want string }{
		{whole, "", "endpoints"},
		{whole, "endpoints: []\n", "has 0 endpoints"},
		{"name: hook", "name: pager", "as that of another endpoint"},
		{"name: hook", "name: ../hook", "lower-case letters"},
		{"name: hook", "nam: hook", "nam"},
		{"https://hooks.example/arl", "http://hooks.example/arl", "leaves this machine"},
		{"https://hooks.example/arl", "https://user:word@hooks.example/arl", "neither user nor fragment"},
		{"https://hooks.example/arl", "file:///etc/passwd", "is no URL"},
		{"    secret: pager.secret\n", "", "/secret"},
		{"log.fork", "log.fort", "log.fork"},
		{"timeout_ms: 5000", "timeout_ms: 60001", "60000"},
		{"timeout_ms: 5000", "timeout_ms: 0", "line 7: field /endpoints/0/timeout_ms: is 0"},
		{"timeout_ms: 5000", "timeout_ms: -1", "write 1 to 60000"},
		{"[w]", "[w, '']", "line 6: field /endpoints/0/workflows/1: is missing"},
		{"[w]", `["bad wf\n"]`, "line 6: field /endpoints/0/workflows/0: \"bad wf\\n\" is not an id"},
		{"    exec: [/usr/local/bin/page, --now]\n", "", "exactly one of url and exec"},
		{"    exec: [", "    url: https://b.example/\n    exec: [", "exactly one of url and exec"},
		{"    exec: [", "    secret: s\n    exec: [", "signs nothing"},
		{"[/usr/local/bin/page, --now]", `[""]`, "is empty"},
		{"[w]", "[" + strings.Repeat("w, ", 64) + "w]", "more than 64 words"},
		{"  - name: hook", strings.Repeat("  - {name: x, exec: [y]}\n", 32) + "  - name: hook", "34 endpoints"},
		{"name: hook", "name: hook # " + strings.Repeat("x", notify.MaxFile), "65536 bytes"},
	} {
		_, err := notify.Parse("notify.yaml", []byte(strings.Replace(whole, bad.old, bad.new, 1)))
		wrong, is := errors.AsType[*scenario.Error](err)
		if !is || !strings.Contains(err.Error(), bad.want) || !strings.Contains(err.Error(), "notify.yaml") {
			t.Errorf("%.60q for %.60q: %v (%+v)", bad.new, bad.old, err, wrong)
		}
	}
}

// checkFiles checks what a notification file names, in the line after its url or name.
func checkFiles(t *testing.T, secret, program string) error {
	t.Helper()
	text := fmt.Appendf(nil, "endpoints:\n  - name: pager\n    url: https://a.example\n    secret: %q\n  - name: hook\n    exec: [%q]\n", secret, program)
	f, err := notify.Parse("notify.yaml", text)
	must(t, err)
	return f.CheckFiles("notify.yaml", text)
}

// TestSecrets refuses secrets that others can read or that sign nothing, and does not show them.
// The error has the place and a remedy.
func TestSecrets(t *testing.T) {
	must(t, checkFiles(t, secretFile(t, secret+"\n"+secret+"\n"), "sh"))
	wrong := func(path string, want ...string) {
		t.Helper()
		err := checkFiles(t, path, "sh")
		if found, is := errors.AsType[*scenario.Error](err); !is || found.File != "notify.yaml" || found.Line != 4 || found.Field != "/endpoints/0/secret" || found.Remedy == "" ||
			!strings.Contains(found.Detail, path) || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%s: %v", path, err)
			return
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q", path, err, text)
			}
		}
	}
	for _, bad := range []string{"", "word", "whsec_", "whsec_c2hvcnQ=", secret + "\nword", "whsec_" + strings.Repeat("A", 5000)} {
		wrong(secretFile(t, bad), "secret")
	}
	open := secretFile(t, secret)
	must(t, os.Chmod(open, 0o644))
	wrong(open, "others may read", "chmod 600 "+open)
	wrong(open+".none", "no such file", "make the file")
	wrong(t.TempDir(), "is no file", "name a file")
	if err := checkFiles(t, secret, "sh"); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "/endpoints/0/secret: is a secret itself") {
		t.Errorf("a secret in place of its file: %v", err)
	}
}

// TestNoProgram refuses a program that is not there, and a file that is none.
func TestNoProgram(t *testing.T) {
	good := secretFile(t, secret)
	for _, program := range []string{"/no/such/program", "no-such-program", good} {
		err := checkFiles(t, good, program)
		if found, is := errors.AsType[*scenario.Error](err); !is || found.File != "notify.yaml" || found.Line != 6 || found.Field != "/endpoints/1/exec/0" ||
			!strings.Contains(found.Detail, program) || found.Remedy == "" {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// FuzzParse writes what was read, and reads the same again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("endpoints: [{name: a, exec: [b]}]"))
	f.Add([]byte("endpoints: &a [*a]"))
	f.Add([]byte("endpoints:\n  - {name: a, url: 'http://[::1]:8/', secret: s}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := notify.Parse("f", text)
		if err != nil {
			if _, is := errors.AsType[*scenario.Error](err); !is {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		again, err := yaml.MarshalWithOptions(file, yaml.UseJSONMarshaler())
		if err != nil {
			t.Fatal(err)
		}
		back, err := notify.Parse("f", again)
		if err != nil || !reflect.DeepEqual(file, back) {
			t.Fatalf("%s: %+v, %+v, %v", again, file, back, err)
		}
	})
}
