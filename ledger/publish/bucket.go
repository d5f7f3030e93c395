package publish

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket is a [Target] in an S3-compatible store. No field has the store's client: the linker keeps
// every method of a type that an interface value leads to, and nothing calls most of these.
type bucket struct {
	name, prefix string

	get    func(ctx context.Context, key string) (data []byte, tag string, err error)
	put    func(ctx context.Context, key string, data []byte, how *minio.PutObjectOptions) (tag string, err error)
	remove func(ctx context.Context, key string) error
}

// endpointDefault is the store if no variable names one.
const endpointDefault = "https://s3.amazonaws.com"

func openBucket(name, prefix string, getenv func(string) string) (*bucket, error) {
	endpoint := cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"), endpointDefault)
	at, err := url.Parse(endpoint)
	if err == nil && (at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.Path != "" && at.Path != "/") {
		err = errors.New("want http://host or https://host")
	}
	if err != nil {
		return nil, fmt.Errorf("publish: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL: %q: %w", endpoint, err)
	}
	keys := credentials.NewStaticV4(getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN"))
	if getenv("AWS_ACCESS_KEY_ID") == "" {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.FileAWSCredentials{}, &credentials.IAM{}})
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: keys, Secure: at.Scheme == "https",
		Region: cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"))})
	if err != nil {
		return nil, fmt.Errorf("publish: s3://%s: %w", name, err)
	}
	return &bucket{
		name: name, prefix: prefix,
		get: func(ctx context.Context, key string) (data []byte, tag string, err error) {
			object, err := client.GetObject(ctx, name, key, minio.GetObjectOptions{})
			if err != nil {
				return nil, "", err
			}
			data, err = io.ReadAll(io.LimitReader(object, maxObject+1))
			if err == nil {
				var found minio.ObjectInfo
				found, err = object.Stat()
				tag = found.ETag
			}
			if closed := object.Close(); err == nil {
				err = closed
			}
			return data, tag, err
		},
		put: func(ctx context.Context, key string, data []byte, how *minio.PutObjectOptions) (tag string, err error) {
			done, err := client.PutObject(ctx, name, key, bytes.NewReader(data), int64(len(data)), *how)
			return done.ETag, err
		},
		remove: func(ctx context.Context, key string) error {
			return client.RemoveObject(ctx, name, key, minio.RemoveObjectOptions{})
		},
	}, nil
}

// failed names the object in an error of the store.
func (b *bucket) failed(name string, err error) error {
	switch response := minio.ToErrorResponse(err); {
	case errors.Is(err, ErrChanged):
	case response.StatusCode == http.StatusPreconditionFailed, response.StatusCode == http.StatusConflict:
		err = ErrChanged
	case response.Code == minio.NoSuchKey:
		err = fs.ErrNotExist
	}
	return fmt.Errorf("publish: s3://%s: %w", path.Join(b.name, b.prefix, name), err)
}

// Get implements [Target].
func (b *bucket) Get(ctx context.Context, name string) (data []byte, tag string, err error) {
	data, tag, err = b.get(ctx, path.Join(b.prefix, name))
	if err != nil {
		return nil, "", b.failed(name, err)
	}
	return data, tag, nil
}

// Put implements [Target].
func (b *bucket) Put(ctx context.Context, name string, data []byte, o PutOptions) (tag string, err error) {
	if o.ContentEncoding == "gzip" {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(data); err != nil {
			return "", err
		}
		if err := w.Close(); err != nil {
			return "", err
		}
		data = packed.Bytes()
	}
	how := minio.PutObjectOptions{ContentType: o.ContentType, ContentEncoding: o.ContentEncoding, CacheControl: o.CacheControl, DisableMultipart: true}
	switch {
	case o.IfAbsent:
		how.SetMatchETagExcept("*")
	case o.IfTag != "":
		how.SetMatchETag(o.IfTag)
	}
	tag, err = b.put(ctx, path.Join(b.prefix, name), data, &how)
	if (o.IfAbsent || o.IfTag != "") && minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented {
		return b.putCompared(ctx, name, data, o)
	}
	if err != nil {
		return "", b.failed(name, err)
	}
	return tag, nil
}

// putCompared is Put at a store that knows no conditions. Between the look and the write another
// publisher may write: an older true tree head stands there until the next round.
func (b *bucket) putCompared(ctx context.Context, name string, data []byte, o PutOptions) (tag string, err error) {
	_, now, err := b.Get(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if now != o.IfTag {
		return "", b.failed(name, ErrChanged)
	}
	o.ContentEncoding, o.IfTag, o.IfAbsent = "", "", false // an object under a condition is not compressed
	return b.Put(ctx, name, data, o)
}

// Delete implements [Target].
func (b *bucket) Delete(ctx context.Context, name string) error {
	if err := b.remove(ctx, path.Join(b.prefix, name)); err != nil {
		return b.failed(name, err)
	}
	return nil
}
