package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
)

// tagged makes the handler of a JSON resource with an entity tag: the hash of
// the answer, so that whoever asks again is told whether anything has changed.
// An answer with that tag never changes.
func tagged[T any](s *Server, handle func(context.Context, *request) (*T, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, err := handle(c.Request().Context(), &request{c})
		if err != nil {
			return err
		}
		body, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			return err
		}
		return s.answerTagged(c, body)
	}
}

// answerTagged answers with JSON and its hash, or says that it is what the client
// has.
func (s *Server) answerTagged(c echo.Context, body []byte) error {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`
	header := c.Response().Header()
	header.Set("ETag", tag)
	header.Set(echo.HeaderCacheControl, cacheAsk)
	if matches(c.Request().Header.Get("If-None-Match"), tag) {
		return c.NoContent(http.StatusNotModified)
	}
	return s.answer(c, http.StatusOK, api.MediaJSON, body)
}

// matches is the weak comparison of RFC 9110, section 13.1.2.
func matches(header, tag string) bool {
	for given := range strings.SplitSeq(header, ",") {
		given = strings.TrimSpace(given)
		if given == "*" || strings.TrimPrefix(given, "W/") == tag {
			return true
		}
	}
	return false
}

// answersTagged describes the answers of a tagged resource.
func answersTagged[T any](doc huma.API, op *huma.Operation, description string) {
	schema := doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	respond(op, http.StatusOK, description, api.MediaJSON, schema)
	op.Responses["200"].Headers = map[string]*huma.Param{"ETag": {Description: "hash of the answer", Schema: text()}}
	op.Responses["304"] = &huma.Response{Description: "If-None-Match names what it still is"}
}
