package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
)

// plain makes the handler of a JSON resource.
func plain[T any](s *Server, handle func(context.Context, *request) (*T, error)) handler {
	return func(r *request) error {
		v, err := handle(r.c.Request().Context(), r)
		if err != nil {
			return err
		}
		return s.answerJSON(r.c, v)
	}
}

// tagged makes the handler of a JSON resource with an entity tag. The tag is the hash of the
// answer, so that a client that asks again learns whether the answer has changed.
func tagged[T any](s *Server, handle func(context.Context, *request) (*T, error)) handler {
	return taggedAs(s, handle, func(v T) any { return v })
}

// taggedAs is tagged for an answer with a part that changes whenever the log grows, such as the
// tree head of its proofs. left returns the answer without that part. The tag is the hash of
// the rest, so it does not depend on the tree head.
func taggedAs[T any](s *Server, handle func(context.Context, *request) (*T, error), left func(T) any) handler {
	return func(r *request) error {
		v, err := handle(r.c.Request().Context(), r)
		if err != nil {
			return err
		}
		body, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			return err
		}
		same, err := json.Marshal(left(*v), json.Deterministic(true))
		if err != nil {
			return err
		}
		return s.answerTagged(r.c, api.MediaJSON, tagOf(same), body)
	}
}

// tagOf returns the entity tag of a body. The tag is weak, since the answer may be compressed
// or not.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`
}

// answerTagged answers with a body and its tag. If the client has the body already, the answer
// says so. A request past caches gets the body: what a cache has under the tag may be another body,
// which a carrier has altered, and an answer without a body would confirm that one.
func (s *Server) answerTagged(c echo.Context, mediaType, tag string, body []byte) error {
	header := c.Response().Header()
	header.Set("ETag", tag)
	header.Set(echo.HeaderCacheControl, cacheAsk)
	request := c.Request().Header
	if matches(request.Get("If-None-Match"), tag) && !strings.Contains(request.Get(echo.HeaderCacheControl), cacheAsk) {
		return c.NoContent(http.StatusNotModified)
	}
	return s.answer(c, http.StatusOK, mediaType, body)
}

// matches compares entity tags weakly (RFC 9110, section 13.1.2).
func matches(header, tag string) bool {
	for given := range strings.SplitSeq(header, ",") {
		given = strings.TrimSpace(given)
		if given == "*" || strings.TrimPrefix(given, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
