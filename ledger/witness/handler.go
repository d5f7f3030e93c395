package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"recoveryledger/verify"
)

// The paths of a witness behind its prefix (c2sp.org/tlog-witness).
const pathAddCheckpoint = "/add-checkpoint"

// mediaSize is the type of the size in the answer to a request from another one.
const mediaSize = "text/x.tlog.size"

// checkpointPath returns the path of the newest head of a log that a witness cosigned.
func checkpointPath(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return "/" + hex.EncodeToString(sum[:]) + "/checkpoint"
}

// Handler answers POST /add-checkpoint and, for each log, GET /HASH/checkpoint with HASH
// the SHA-256 of its origin (c2sp.org/tlog-witness). GET /v1/evidence answers what
// convicts a log; with the parameter origin, that log alone. failed is told of what is the
// witness's own fault, such as a full disk, and of nothing that a request does.
func (w *Witness) Handler(failed func(error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathAddCheckpoint, func(out http.ResponseWriter, in *http.Request) {
		lines, err := w.answer(out, in)
		if err == nil {
			_, _ = io.WriteString(out, lines) // a client that is gone asks again
			return
		}
		status := statusOf(err)
		if status == http.StatusInternalServerError {
			failed(err)
			http.Error(out, "the witness could not keep the tree head", status)
			return
		}
		if size, ok := errors.AsType[*SizeError](err); ok {
			out.Header().Set("Content-Type", mediaSize)
			out.WriteHeader(status)
			_, _ = fmt.Fprintf(out, "%d\n", size.Size)
			return
		}
		http.Error(out, err.Error(), status)
	})
	mux.HandleFunc("GET "+pathEvidence, func(out http.ResponseWriter, in *http.Request) {
		list, err := w.Evidence(in.URL.Query().Get("origin"))
		if err != nil {
			failed(err)
			http.Error(out, "the witness could not read its evidence", http.StatusInternalServerError)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		out.Header().Set("Cache-Control", "no-cache")
		_ = json.MarshalWrite(out, Evidence{Evidence: list}) // a client that is gone asks again
	})
	for _, origin := range w.Logs() {
		mux.HandleFunc("GET "+checkpointPath(origin), func(out http.ResponseWriter, _ *http.Request) {
			head := w.Head(origin)
			if head == "" {
				http.Error(out, "the witness has cosigned no tree head of this log yet", http.StatusNotFound)
				return
			}
			out.Header().Set("Content-Type", "text/plain; charset=utf-8")
			out.Header().Set("Cache-Control", "no-cache")
			_, _ = io.WriteString(out, head)
		})
	}
	return mux
}

func (w *Witness) answer(out http.ResponseWriter, in *http.Request) (string, error) {
	body, err := io.ReadAll(http.MaxBytesReader(out, in.Body, int64(maxRequest)))
	if err != nil {
		return "", verify.Malformed("request", "%v", err)
	}
	r, err := parseRequest(body)
	if err != nil {
		return "", err
	}
	return w.Cosign(r)
}

// statusOf returns the status of a refusal.
func statusOf(err error) int {
	if errors.Is(err, ErrGate) {
		return http.StatusServiceUnavailable
	}
	if _, ok := errors.AsType[*SizeError](err); ok {
		return http.StatusConflict
	}
	if _, ok := errors.AsType[*verify.FormatError](err); ok {
		return http.StatusBadRequest
	}
	for _, refusal := range []struct {
		err    error
		status int
	}{
		{ErrUnknownLog, http.StatusNotFound}, {ErrSignature, http.StatusForbidden},
		{ErrOldSize, http.StatusBadRequest}, {ErrProof, http.StatusUnprocessableEntity},
	} {
		if errors.Is(err, refusal.err) {
			return refusal.status
		}
	}
	return http.StatusInternalServerError
}

// ParseURL reads the submission prefix of a witness: an absolute URL of HTTP or HTTPS
// without query, fragment and user. The error is a [*verify.FormatError].
func ParseURL(text string) (prefix string, err error) {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		err = errors.New("not of the form https://HOST/PATH")
	}
	if err != nil {
		return "", verify.Malformed("witness URL", "%.140q: %v", text, err).WithRemedy("name the submission prefix of the witness, such as https://witness.example.org")
	}
	return strings.TrimRight(text, "/"), nil
}

// parseSize reads the answer to a request from another size.
func parseSize(body string) (uint64, error) {
	digits, ok := strings.CutSuffix(body, "\n")
	size, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || strconv.FormatUint(size, 10) != digits {
		return 0, verify.Malformed("size", "the witness answered %.80q", body)
	}
	return size, nil
}
