package conformance

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
)

// An Effect is something that an agent asks the world of the kit to do.
type Effect struct {
	Do         string      `json:"do"` // run, compensate or restore
	Exec       entry.Ref   `json:"exec,omitempty"`
	Checkpoint entry.Ref   `json:"checkpoint,omitempty"` // with restore
	Key        string      `json:"key,omitempty"`        // idempotency key, with run and compensate
	Standing   []entry.Ref `json:"standing,omitempty"`   // with restore: executions whose effects stand
}

// of is what the effect is on.
func (e *Effect) of() entry.Ref {
	if e.Do == "restore" {
		return e.Checkpoint
	}
	return e.Exec
}

// same reports whether two effects are one under an idempotency key.
func (e *Effect) same(other *Effect) bool {
	return e.Do == other.Do && e.of() == other.of() && (e.Key == other.Key || other.Key == "")
}

// maxEffect is the longest description of an effect, in bytes.
const maxEffect = 64 << 10

// stateDigest is the digest of the state at every checkpoint: of the text "{}".
const stateDigest entry.Digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

// world is what the agent under test has effects on: a service that has an effect each time that it
// is asked to, and that can be asked what was done.
type world struct {
	url   string
	stage *stage.Stage
	web   *http.Server

	mu      sync.Mutex
	gate    func(e *Effect) (answer bool) // after an effect; false: the world does not answer. nil: it does
	done    []Effect
	asked   []Effect        // probes
	fails   map[string]bool // what is refused for good, by Do
	wrong   []string        // what the agent asked that is no question
	started func(e *Effect) string
}

func newWorld(s *stage.Stage) (*world, error) {
	w := &world{stage: s, fails: map[string]bool{}}
	var listening net.ListenConfig
	listener, err := listening.Listen(noContext, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.url = "http://" + listener.Addr().String() + "/effects"
	w.web = &http.Server{Handler: http.HandlerFunc(w.serve), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = w.web.Serve(listener) }() // until close
	return w, nil
}

func (w *world) close() { _ = w.web.Close() }

type effectAnswer struct {
	Done   bool         `json:"done"`
	Digest entry.Digest `json:"digest,omitempty"` // of the state, after a restore
}

func answerEffect(rw http.ResponseWriter, done bool, do string) {
	a := effectAnswer{Done: done}
	if done && do == "restore" {
		a.Digest = stateDigest
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(rw, a) // a client that is gone needs none
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		q := probeOf(r.URL.Query())
		w.mu.Lock()
		w.asked = append(w.asked, q)
		done := slices.ContainsFunc(w.done, func(e Effect) bool { return e.same(&q) })
		w.mu.Unlock()
		answerEffect(rw, done, q.Do)
		w.stage.Announce()
		return
	}
	var e Effect
	err := json.UnmarshalRead(io.LimitReader(r.Body, maxEffect), &e, json.RejectUnknownMembers(true))
	if err == nil && (!slices.Contains([]string{"run", "compensate", "restore"}, e.Do) || e.of() == "") {
		err = fmt.Errorf("no effect: do %q, exec %q, checkpoint %q", e.Do, e.Exec, e.Checkpoint)
	}
	if err != nil {
		w.mu.Lock()
		w.wrong = append(w.wrong, err.Error())
		w.mu.Unlock()
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.have(rw, &e)
}

// gated sets what is asked after each effect from now on; nil: nothing is.
func (w *world) gated(gate func(e *Effect) (answer bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = gate
}

// have has an effect, and answers.
func (w *world) have(rw http.ResponseWriter, e *Effect) {
	early := ""
	if w.started != nil {
		early = w.started(e)
	}
	w.mu.Lock()
	fails, gate := w.fails[e.Do], w.gate
	if !fails {
		w.done = append(w.done, *e)
	}
	if early != "" {
		w.wrong = append(w.wrong, early)
	}
	w.mu.Unlock()
	w.stage.Announce()
	switch {
	case fails:
		http.Error(rw, "refused for good: there was no effect, and there will be none", http.StatusConflict)
	case gate != nil && !gate(e):
		panic(http.ErrAbortHandler)
	default:
		answerEffect(rw, true, e.Do)
	}
}

func probeOf(q url.Values) Effect {
	return Effect{Do: q.Get("do"), Exec: entry.Ref(q.Get("exec")), Checkpoint: entry.Ref(q.Get("checkpoint")), Key: q.Get("key")}
}

// times returns how often the world had an effect on something.
func (w *world) times(do string, of entry.Ref) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.done {
		if w.done[i].Do == do && w.done[i].of() == of {
			n++
		}
	}
	return n
}

// undone returns the effects that undo something.
func (w *world) undone() (list []Effect) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.done {
		if w.done[i].Do != "run" {
			list = append(list, w.done[i])
		}
	}
	return list
}
