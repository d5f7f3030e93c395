package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// getCheckpoint is GET /checkpoint (c2sp.org/tlog-tiles).
func (s *Server) getCheckpoint(r *request) error {
	c := r.c
	head, err := s.Checkpoint()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(head))
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, cacheMoment)
	header.Set("ETag", tag)
	if matches(c.Request().Header.Get("If-None-Match"), tag) {
		return c.NoContent(http.StatusNotModified)
	}
	return s.answer(c, http.StatusOK, api.MediaNote, []byte(head))
}

// getTile is GET /tile/… (c2sp.org/tlog-tiles). A tile that the log does not have, or could
// never have, is not-found, as in a directory of files. Clients take any other status for a
// failure.
func (s *Server) getTile(r *request) error {
	tile, err := merkle.ParseTilePath(r.c.Request().URL.Path[1:])
	if err != nil {
		return entry.Refuse(entry.NotFound, "", "%v", err).WithRemedy("spell tile paths as c2sp.org/tlog-tiles does")
	}
	content, err := s.log.Tile(tile)
	if err != nil {
		return err
	}
	r.header().Set(echo.HeaderCacheControl, cacheForever)
	return s.answer(r.c, http.StatusOK, api.MediaTile, content)
}
