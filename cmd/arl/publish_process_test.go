//go:build unix

package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// TestServePublishes: a ledger publishes to a bucket while it runs, and arl audits the log from
// there alone. A ledger that lost entries finds the published head, and does not start.
func TestServePublishes(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	store := gofakes3.New(backend).Server()
	heads := make(chan struct{}, 1<<16)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		coding := strings.Trim(strings.TrimPrefix(r.Header.Get("Content-Encoding"), "aws-chunked"), ",") // as S3 keeps it
		if r.Header.Del("Content-Encoding"); coding != "" {
			r.Header.Set("Content-Encoding", coding)
		}
		store.ServeHTTP(w, r)
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/checkpoint") {
			heads <- struct{}{}
		}
	}))
	defer web.Close()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": web.URL} {
		t.Setenv(name, value)
	}
	m := newMachine(t, "--publish", "s3://logs/mine", "--publish-every", "20ms")
	m.start()
	m.enrol()
	m.stop()
	early := filepath.Join(filepath.Dir(m.data), "early")
	m.copy(m.data, early)
	m.start()
	m.bulk(300)
	for size := 0; size < 300; {
		<-heads
		size = m.publishedAt(web.URL + "/logs/mine")
	}
	m.arl("log", "audit", "--url", web.URL+"/logs/mine")
	m.stop()
	public := filepath.Join(filepath.Dir(m.data), "public")
	m.arl("log", "export", "--data", m.data, "--to", "file://"+public)
	files := httptest.NewServer(http.FileServer(http.Dir(public)))
	defer files.Close()
	m.arl("log", "audit", "--url", files.URL)

	m.must(os.RemoveAll(m.data))
	m.must(os.Rename(early, m.data))
	m.must(os.Remove(m.data + ".anchor"))
	m.home = filepath.Join(filepath.Dir(m.data), "another") // which has accepted no head
	cmd, said := m.command(nil, "serve", "--data", m.data, "--listen", "127.0.0.1:0", "--accept-anchor", "--publish", "s3://logs/mine")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 10 || !strings.Contains(said.String(), "is published under the ledger's signature") {
		t.Errorf("an older copy starts: %v\n%s", err, said)
	}
}

// publishedAt returns the size of the tree head at a URL.
func (m *machine) publishedAt(url string) int {
	m.t.Helper()
	response, err := http.Get(url + "/checkpoint")
	m.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	m.must(err)
	lines := strings.Split(string(body), "\n")
	if len(lines) < 3 {
		return 0
	}
	size, err := strconv.Atoi(lines[1])
	m.must(err)
	return size
}
