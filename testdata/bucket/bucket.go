// Package bucket is a store of S3 in the process of a test: gofakes3, which others wrote.
package bucket

import (
	"net/http"
	"strings"
	"sync"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Name is the bucket that a store has.
const Name = "logs"

// NewStore returns a store with one empty bucket. It does what S3 does and gofakes3 does not: it
// keeps Cache-Control, and takes the framing of a body that is signed in chunks out of
// Content-Encoding.
func NewStore() http.Handler {
	backend := s3mem.New()
	if err := backend.CreateBucket(Name); err != nil {
		panic(err) // the backend is new
	}
	store := gofakes3.New(backend).Server()
	var caching sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			caching.Store(r.URL.Path, r.Header.Get("Cache-Control"))
			coding := strings.Trim(strings.TrimPrefix(r.Header.Get("Content-Encoding"), "aws-chunked"), ",")
			if r.Header.Del("Content-Encoding"); coding != "" {
				r.Header.Set("Content-Encoding", coding)
			}
		} else if kept, ok := caching.Load(r.URL.Path); ok {
			w.Header().Set("Cache-Control", kept.(string))
		}
		store.ServeHTTP(w, r)
	})
}

// Variables returns the environment in which a program finds the store at a URL.
func Variables(url string) map[string]string {
	return map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": url}
}
