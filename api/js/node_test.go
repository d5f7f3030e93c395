//go:build unix

package js_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"recoveryledger/testdata/needs"
)

// nodeArchive is an archive as nodejs.org has them, with a program that says its version.
func nodeArchive(t *testing.T, folder string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	files := tar.NewWriter(zip)
	const text = "#!/bin/sh\necho v20.20.2\n"
	err := files.WriteHeader(&tar.Header{Name: folder + "/bin/node", Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = files.Write([]byte(text))
	}
	if err == nil {
		err = files.Close()
	}
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestNodeOfCI: where the node of the system is too old, as Debian 12's is, .ci/run gets one that
// is new enough, with a checksum, or says what to do.
func TestNodeOfCI(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // .ci/run is for Debian and Ubuntu
	}
	folder := "node-v20.20.2-linux-" + map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if runtime.GOARCH != "amd64" {
		folder = "node-v20.20.2-linux-" + runtime.GOARCH
	}
	archive := nodeArchive(t, folder)
	for name, c := range map[string]struct {
		has, sum, out, err string
	}{
		"new enough":   {has: "v22.1.0", sum: "none"},
		"old":          {has: "v18.20.4", out: "/bin/tools/_node20/bin\n"},
		"none":         {out: "/bin/tools/_node20/bin\n"},
		"another sum":  {has: "v18.20.4", sum: strings.Repeat("0", 64), err: "node: v18.20.4 is here, and the packages in JavaScript need version 20 or later"},
		"no such file": {has: "v18.20.4", sum: "none", err: "put it first in PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case c.sum == "none":
					http.NotFound(w, r)
				case r.URL.Path == "/latest-v20.x/SHASUMS256.txt":
					sum := c.sum
					if sum == "" {
						sum = fmt.Sprintf("%x", sha256.Sum256(archive))
					}
					_, _ = fmt.Fprintf(w, "%s  node-v20.20.2-aix-ppc64.tar.gz\n%s  %s.tar.gz\n", sum, sum, folder)
				case r.URL.Path == "/latest-v20.x/"+folder+".tar.gz":
					_, _ = w.Write(archive)
				}
			}))
			defer web.Close()
			dir := t.TempDir()
			for name, from := range map[string]string{".ci/node": ".ci/node", "api/js/package.json": "api/js/package.json"} {
				text, err := os.ReadFile(filepath.Join(needs.Root(), from))
				if err == nil {
					err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), text, 0o700)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			text := "#!/bin/sh\nexit 127\n"
			if c.has != "" {
				text = "#!/bin/sh\necho " + c.has + "\n"
			}
			if err := os.WriteFile(filepath.Join(dir, "node"), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, ".ci", "node"))
			cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "NODE_DOWNLOADS="+web.URL)
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			if (err != nil) != (c.err != "") || !strings.HasSuffix(string(out), c.out) || (c.out == "") != (len(out) == 0) || !strings.Contains(said.String(), c.err) {
				t.Fatalf("%v: %s%s", err, out, said.String())
			}
			if c.out != "" {
				if version, err := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(out)), "node"), "--version").Output(); err != nil || string(version) != "v20.20.2\n" {
					t.Errorf("%q %v", version, err)
				}
			}
		})
	}
}
