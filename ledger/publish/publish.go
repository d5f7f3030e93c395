// Package publish brings the static files of a log (c2sp.org/tlog-tiles) to where readers get them:
// a directory, or a bucket of any S3-compatible store. Readers never touch the ledger.
//
//	checkpoint             the signed tree head, cached for a second
//	tile/0/000             256 hashes, cached for ever
//	tile/0/001.p/44        the first 44 hashes of the next tile
//	tile/entries/000       256 leaves, gzipped in a bucket
//	.arl-publish           what a publisher has to remember; no part of the log
//
// Data comes before the tree head: what a tree head covers is there. All files but checkpoint
// follow from their name and the log, so that a publisher that was killed, or two at a time, write
// the same bytes. A tree head is put only in the place of the one that was read before
// ([PutOptions].IfTag). A target that is ahead of the log is a witness for nothing: the log has
// lost entries, and the error is [ledger.ErrRolledBack].
package publish

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Target is where files are published. Its methods may be called concurrently.
type Target interface {
	// Get returns an object and its tag. The error is [fs.ErrNotExist] if there is none.
	Get(ctx context.Context, name string) (data []byte, tag string, err error)
	// Put writes an object, whole and durable, or not at all. The error is [ErrChanged] if the
	// object is not the one that the options name.
	Put(ctx context.Context, name string, data []byte, o PutOptions) (tag string, err error)
	// Delete removes an object; none is no error.
	Delete(ctx context.Context, name string) error
}

// PutOptions say how an object is kept, and in the place of what it may be put.
type PutOptions struct {
	ContentType     string // media type
	ContentEncoding string // gzip: the target compresses the object, if it can tell readers so
	CacheControl    string // for readers; empty: nothing is said
	IfTag           string // the object must have this tag; empty: any
	IfAbsent        bool   // there must be no such object
}

// ErrChanged reports an object that somebody else has written.
var ErrChanged = errors.New("publish: the object has changed")

// maxObject is the size in bytes of the largest object that Get reads: a tree head, or the notes of
// a publisher.
const maxObject = 1 << 20

// Open returns the target at a location: s3://BUCKET/PREFIX or file://DIRECTORY. A bucket takes its
// keys, region and endpoint from the variables of the AWS tools: AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL.
// Open makes no request.
func Open(location string, getenv func(string) string) (Target, error) {
	at, err := url.Parse(location)
	if err == nil && (at.RawQuery != "" || at.Fragment != "" || at.User != nil) {
		err = errors.New("a query, fragment or user")
	}
	if err != nil {
		return nil, fmt.Errorf("publish: %q: %w", location, err)
	}
	prefix := strings.Trim(at.Path, "/")
	switch {
	case at.Scheme == "s3" && at.Host != "":
		return openBucket(at.Host, prefix, getenv)
	case at.Scheme == "file" && at.Host == "" && strings.HasPrefix(at.Path, "/"):
		return &directory{at.Path}, nil
	}
	return nil, fmt.Errorf("publish: %q: want s3://BUCKET/PREFIX or file:///DIRECTORY", location)
}
