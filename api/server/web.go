package server

import (
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"recoveryledger/api"
)

// compressed compresses answers of compressMin bytes and more for who takes gzip:
// JSON, and bundles of leaves. Hash tiles do not shrink; a stream is read as it is
// written; the checkpoint is what its signatures are over, for readers of any sort;
// the metrics are compressed by their own handler.
func compressed() echo.MiddlewareFunc {
	compress := middleware.GzipWithConfig(middleware.GzipConfig{MinLength: compressMin, Level: gzip.BestSpeed})
	never := pathsWith(func(r *api.Route) bool { return r.Plain })
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		with := compress(next)
		return func(c echo.Context) error {
			switch {
			case slices.Contains(never, c.Path()):
				return next(c)
			case !takesGzip(c.Request().Header):
				c.Response().Header().Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
				return next(c)
			}
			return with(c)
		}
	}
}

// takesGzip reports whether an answer may be compressed (RFC 9110, section 12.5.3).
func takesGzip(header http.Header) bool {
	takes := false
	for coding := range strings.SplitSeq(strings.Join(header.Values(echo.HeaderAcceptEncoding), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		_, q, given := strings.Cut(weight, "=")
		value, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		wanted := !given || err == nil && value > 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return wanted
		case "*":
			takes = wanted
		}
	}
	return takes
}

// pathsWith returns the paths, in the spelling of the router, of some routes.
func pathsWith(wanted func(*api.Route) bool) (paths []string) {
	for _, route := range api.Routes() {
		if wanted(&route) {
			paths = append(paths, routerPath(route.Path))
		}
	}
	return paths
}

// shared lets pages of any origin read what is public and proves itself: tree
// heads, tiles, receipts and consistency proofs. No other path answers a preflight.
func shared(next echo.HandlerFunc) echo.HandlerFunc {
	public := pathsWith(func(r *api.Route) bool { return r.Public })
	return func(c echo.Context) error {
		if !slices.Contains(public, c.Path()) {
			return next(c)
		}
		header := c.Response().Header()
		header.Set(echo.HeaderAccessControlAllowOrigin, "*")
		if c.Request().Method != http.MethodOptions {
			header.Set(echo.HeaderAccessControlExposeHeaders, "ETag, Retry-After, X-Request-Id")
			return next(c)
		}
		header.Set(echo.HeaderAccessControlAllowMethods, "GET, HEAD")
		header.Set(echo.HeaderAccessControlAllowHeaders, "If-None-Match, X-Request-Id")
		header.Set(echo.HeaderAccessControlMaxAge, "86400")
		return next(c)
	}
}

// headKey is where the context of a request says that it was HEAD.
type headKey struct{}

// withHead answers HEAD like GET, wherever GET is answered, and has Allow say so;
// the connection leaves the body out.
func withHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// isHead reports whether a request that is answered like GET was HEAD.
func isHead(r *http.Request) bool { return r.Context().Value(headKey{}) != nil }

// allowHead has Allow name HEAD beside GET.
func allowHead(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		header := c.Response().Header()
		c.Response().Before(func() {
			if allow := header.Get(echo.HeaderAllow); strings.Contains(allow, http.MethodGet) && !strings.Contains(allow, http.MethodHead) {
				header.Set(echo.HeaderAllow, strings.Replace(allow, http.MethodGet, "GET, HEAD", 1))
			}
		})
		return next(c)
	}
}

// ownHost refuses requests over loopback that call the server by another's name: a
// website whose name leads to this machine could read the log as its own (DNS
// rebinding). Over TLS the certificate says the name.
func (s *Server) ownHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		local, _ := c.Request().Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if s.cfg.TLS != nil || local == nil || !local.IP.IsLoopback() {
			return next(c)
		}
		host := (&url.URL{Host: c.Request().Host}).Hostname()
		if net.ParseIP(host).IsLoopback() || strings.EqualFold(host, "localhost") || slices.Contains(s.cfg.Hosts, host) {
			return next(c)
		}
		return &failure{Problem: api.NewStatus(http.StatusMisdirectedRequest, fmt.Sprintf("this server is on loopback and is not called %.140q", host),
			"call it by its address, such as 127.0.0.1, or start it with --host NAME")}
	}
}
