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

// compressed compresses answers of compressMin bytes and more for clients that take gzip. It
// leaves out four kinds. Hash tiles do not shrink. A stream is read as it is written. Readers
// need the checkpoint byte for byte. The handler of the metrics compresses them itself.
func (s *Server) compressed() echo.MiddlewareFunc {
	compress := middleware.GzipWithConfig(middleware.GzipConfig{MinLength: compressMin, Level: gzip.BestSpeed})
	never := pathsWith(func(r *api.Route) bool { return r.Plain })
	if s.cfg.Pages != nil {
		never = append(never, s.cfg.Pages.Streams()...)
	}
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

// shared lets pages of any origin read public answers that prove themselves: tree heads,
// tiles, receipts and consistency proofs. No other path answers a preflight.
func shared() echo.MiddlewareFunc {
	public := pathsWith(func(r *api.Route) bool { return r.Public }) // once: Echo calls the middleware anew for every request
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !slices.Contains(public, c.Path()) {
				return next(c)
			}
			header := c.Response().Header()
			header.Set(echo.HeaderAccessControlAllowOrigin, "*")
			if c.Request().Method != http.MethodOptions {
				header.Set(echo.HeaderAccessControlExposeHeaders, "ETag, Log-Size, Retry-After, X-Request-Id")
				return next(c)
			}
			header.Set(echo.HeaderAccessControlAllowMethods, "GET, HEAD")
			header.Set(echo.HeaderAccessControlAllowHeaders, "If-None-Match, Min-Log-Size, X-Request-Id")
			header.Set(echo.HeaderAccessControlMaxAge, "86400")
			return next(c)
		}
	}
}

// headKey is the key under which the context of a request says that the method was HEAD.
type headKey struct{}

// withHead answers HEAD like GET on every path that answers GET. The connection leaves the
// body out.
func withHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, true))
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// isHead reports whether the method of a request was HEAD before withHead.
func isHead(r *http.Request) bool { return r.Context().Value(headKey{}) != nil }

// allowHead adds HEAD to an Allow header that names GET.
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

// ownHost refuses requests over loopback that call the server by a foreign name. A website
// whose name resolves to loopback could else read the log as its own (DNS rebinding). Over TLS
// the certificate names the server.
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
