package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/api/attempts"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/ask"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// rules are the rules of recovery of a policy in force, compiled. They do not
// change while a request is under way.
type rules struct {
	api.Rules
	batch engine.Batch
}

// rulesInForce returns the rules of the policy in force. They are compiled once.
func (s *Server) rulesInForce() (*rules, error) {
	policy, ref := s.coord.View().Chain.Policy()
	if policy == nil {
		return nil, entry.Refuse(entry.NotReady, "", "the log has no policy yet")
	}
	if known := s.rules.Load(); known != nil && known.Policy == ref {
		return known, nil
	}
	compiled := recovery.InForce(policy)
	r := &rules{
		Rules: api.Rules{Policy: ref, Digest: compiled.Hash()},
		batch: engine.Batch{Config: engine.Config{Policy: compiled}, Workers: 1, Neighbours: engine.Neighbours(compiled)},
	}
	s.rules.Store(r)
	return r, nil
}

// line decides one case.
func (r *rules) line(ctx context.Context, line []byte) (*engine.Result, error) {
	done, err := r.batch.Line(ctx, line)
	return done, refusedLine(err)
}

// refusedLine makes a refusal of an input that is no case or no question.
func refusedLine(err error) error {
	if wrong, ok := errors.AsType[*scenario.Error](err); ok {
		return entry.Refuse(wrong.Problem, wrong.Field, "%s", wrong.Detail).WithRemedy(wrong.Remedy)
	}
	return err
}

// byArms returns the rules with those of the rollout that is under way. A request sees one state of
// the log.
func (s *Server) byArms(r *rules) *rules {
	var fold rollout.Fold
	s.coord.Read(func(state *coord.State) {
		if state.Rollouts().Current() != nil {
			fold = state.Rollouts().Clone()
		}
	})
	if fold.Current() == nil {
		return r
	}
	own := *r
	own.batch.Arms = func(id string) recovery.Arms { return fold.Of(r.batch.Policy, id) }
	return &own
}

// recording begins to record the cases of a request.
func (s *Server) recording(asked *request) *attempts.Batch {
	tls := asked.c.Request().TLS
	return s.cfg.Attempts.Begin(tls != nil && len(tls.VerifiedChains) > 0, !queryOf[api.RecoveryQuery](asked).Unrecorded)
}

// postRecovery is POST /v1/recoveries: the decisions about one case.
func (s *Server) postRecovery(asked *request) error {
	return s.byRules(api.MaxCase, func(r *rules, ctx context.Context, body []byte) (any, error) {
		done, err := s.byArms(r).line(ctx, body)
		if err != nil {
			return nil, err
		}
		batch := s.recording(asked)
		failed := batch.Add(ctx, done, r.Digest)
		recorded, err := batch.End(ctx)
		return api.Recovery{Rules: r.Rules, Trace: done.Encoded, Recorded: recorded}, errors.Join(failed, err)
	})(asked)
}

// decided answers POST /v1/decide: the action about one failure.
func (r *rules) decided(_ context.Context, body []byte) (any, error) {
	q, err := ask.Decode(body)
	if err != nil {
		return nil, refusedLine(err)
	}
	text, err := json.Marshal(q.Decide(r.batch.Policy))
	return api.Decided{Rules: r.Rules, Decision: text}, err
}

// byRules answers a body of at most limit bytes by the rules in force.
func (s *Server) byRules(limit int, answer func(*rules, context.Context, []byte) (any, error)) handler {
	return func(asked *request) error {
		c := asked.c
		r, err := s.recoveryRules(c, api.MediaJSON)
		if err != nil {
			return err
		}
		buf := s.buffer()
		defer s.put(buf)
		body := s.batches.Body(clientOf(c), c.Request().Body)
		defer body.Release()
		request := *c.Request()
		request.Body = io.NopCloser(body)
		if *buf, err = readBody(&request, *buf, limit); err != nil {
			return err
		}
		said, err := answer(r, request.Context(), *buf)
		if err != nil {
			return err
		}
		return s.answerJSON(c, said)
	}
}

// recoveryRules checks the headers of both requests, and returns the rules that decide.
func (s *Server) recoveryRules(c echo.Context, mediaType string) (*rules, error) {
	given, _, _ := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType)) // a malformed type is unsupported
	remedy := "send one case as " + api.MediaJSON + " to " + api.PathRecoveries + " (a question to " + api.PathDecide + "), or one on each line as " + api.MediaNDJSON + " to " +
		api.PathBatch + ", uncompressed"
	if encoding := c.Request().Header.Get(echo.HeaderContentEncoding); encoding != "" {
		return nil, &failure{Problem: api.NewStatus(http.StatusUnsupportedMediaType, "Content-Encoding "+strconv.QuoteToASCII(encoding)+" is not taken here", remedy)}
	}
	if given != mediaType {
		return nil, &failure{Problem: api.NewStatus(http.StatusUnsupportedMediaType, "Content-Type "+strconv.QuoteToASCII(given)+" is not taken here", remedy)}
	}
	return s.rulesInForce()
}

// postRecoveries is POST /v1/recoveries/batch. It answers a line as soon as the line is read,
// so that a batch of any length takes little memory.
func (s *Server) postRecoveries(asked *request) error {
	c := asked.c
	r, err := s.recoveryRules(c, api.MediaNDJSON)
	if err != nil {
		return err
	}
	if !s.batches.Take(clientOf(c), api.MaxCase) {
		return entry.Refuse(entry.RateLimited, "", "too many batches are under way")
	}
	defer s.batches.Give(clientOf(c), api.MaxCase)
	b := &recoveryBatch{
		server: s, c: c, rules: s.byArms(r), attempts: s.recording(asked), control: http.NewResponseController(c.Response()),
		in: bufio.NewReaderSize(c.Request().Body, api.MaxCase+len("\r\n")), seen: map[[16]byte]uint64{},
	}
	if b.tree, err = merkle.NewFrontier(0, nil); err != nil {
		return err
	}
	b.end.Rules = r.Rules
	if err := b.control.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) { // HTTP/2 is always full-duplex
		return err
	}
	defer b.attempts.End(c.Request().Context()) //nolint:errcheck // for a batch that fails otherwise
	return b.run()
}

// recoveryBatch is a batch under way.
type recoveryBatch struct {
	server   *Server
	c        echo.Context
	rules    *rules
	attempts *attempts.Batch
	control  *http.ResponseController
	in       *bufio.Reader
	out      bytes.Buffer
	tree     *merkle.Frontier
	seen     map[[16]byte]uint64 // the line of each case
	lines    uint64
	waiting  []recoveryLine // that are not decided yet
	size     int64
	end      api.RecoveryEnd
}

// recoveryLine is a line of a batch, and what was decided about it.
type recoveryLine struct {
	number uint64
	text   []byte
	done   *engine.Result
	err    error
}

// flushAt is the largest part of an answer, in bytes, that waits while more of the request is
// there to read.
const flushAt = 32 << 10

// run answers the batch line by line.
func (b *recoveryBatch) run() error {
	for {
		line, err := b.next()
		if err != nil {
			if err := b.decide(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) && b.lines == 0:
			return entry.Refuse(entry.Malformed, "", "a batch without lines")
		case errors.Is(err, io.EOF):
			return b.finish()
		case err != nil && b.lines == 0 && !b.c.Response().Committed:
			return err
		case err != nil:
			return b.interrupt(err)
		}
		if line != nil {
			b.waiting = append(b.waiting, recoveryLine{number: b.lines, text: bytes.Clone(line)})
		}
	}
}

// decide decides the cases of the lines that arrived together, on all processors, and answers them
// in order.
func (b *recoveryBatch) decide() error {
	lines := b.waiting
	b.waiting = nil
	if len(lines) == 0 {
		return nil
	}
	if err := b.patient(time.Time{}); err != nil {
		return err
	}
	var group sync.WaitGroup
	var next atomic.Int64
	for range min(len(lines), runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(lines)); i = next.Add(1) - 1 {
				lines[i].done, lines[i].err = b.rules.line(b.c.Request().Context(), lines[i].text)
			}
		})
	}
	group.Wait()
	for i := range lines {
		if err := b.answer(&lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// patient waits for the client until a time, the zero one for ever. The deadline is for the client:
// in HTTP/2 it ends the request also while the server works.
func (b *recoveryBatch) patient(until time.Time) error {
	if err := b.control.SetReadDeadline(until); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// next reads a line. It refuses a line over the limit, and returns nil for it. Before next waits
// for the client, all lines that arrived are answered.
func (b *recoveryBatch) next() ([]byte, error) {
	arrived, err := b.in.Peek(b.in.Buffered())
	if err != nil || bytes.IndexByte(arrived, '\n') < 0 {
		if err := errors.Join(b.decide(), b.flush()); err != nil {
			return nil, err
		}
		if err := b.patient(time.Now().Add(b.server.cfg.ReadTimeout)); err != nil {
			return nil, err
		}
	}
	select {
	case <-b.server.draining:
		return nil, errDraining
	default:
	}
	line, err := b.in.ReadSlice('\n')
	b.size += int64(len(line))
	tooLong := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) && b.size <= api.MaxRecoveryBytes {
		line, err = b.in.ReadSlice('\n')
		b.size += int64(len(line))
	}
	switch {
	case b.size > api.MaxRecoveryBytes, err == nil && b.lines == api.MaxRecoveryLines:
		return nil, errBatchFull
	case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
		return nil, err
	}
	b.lines++
	line = bytes.TrimRight(line, "\r\n")
	if tooLong || len(line) > api.MaxCase {
		if err := b.decide(); err != nil {
			return nil, err
		}
		return nil, b.refuse(b.lines, entry.Refuse(entry.TooLarge, "", "the line has more than %d bytes", api.MaxCase))
	}
	return line, nil
}

var (
	errDraining  = errors.New("server: the server is shutting down")
	errBatchFull = errors.New("server: the batch is over its limit")
)

// answer answers a line that was decided.
func (b *recoveryBatch) answer(line *recoveryLine) error {
	done, err := line.done, line.err
	if err != nil {
		return b.refuse(line.number, err)
	}
	id := sha256.Sum256([]byte(done.ID))
	if first, twice := b.seen[[16]byte(id[:16])]; twice {
		return b.refuse(line.number, entry.Refuse(entry.IDConflict, "/id", "case %q already stands in line %d", done.ID, first).WithRemedy("give each case its own id"))
	}
	b.seen[[16]byte(id[:16])] = line.number
	if err := b.tree.Append(done.Leaf, func(uint, uint64, merkle.Hash) {}); err != nil {
		return err
	}
	if err := b.attempts.Add(b.c.Request().Context(), done, b.rules.Digest); err != nil {
		return err
	}
	b.end.Cases++
	switch done.Trace.Status {
	case engine.AutoRecovered:
		b.end.AutoRecovered++
	case engine.Escalated:
		b.end.Escalated++
	default:
		b.end.NoFailure++
	}
	if err := b.write(&api.RecoveryLine{Line: line.number, Trace: done.Encoded}); err != nil || b.out.Len() < flushAt {
		return err
	}
	return b.flush()
}

// refuse answers a line with the problem of a refusal. Any other error ends the batch.
func (b *recoveryBatch) refuse(line uint64, err error) error {
	if _, ok := errors.AsType[*entry.Refusal](err); !ok {
		return err
	}
	return b.tell(line, asFailure(err))
}

// tell answers a line with a problem.
func (b *recoveryBatch) tell(line uint64, f *failure) error {
	b.end.Refused++
	b.server.occurred(b.c, f)
	b.c.Response().Header().Del(echo.HeaderRetryAfter) // the line says it
	return b.write(&api.RecoveryLine{Line: line, Problem: f.Problem})
}

// interrupt ends a batch before the end of the request, and says why.
func (b *recoveryBatch) interrupt(err error) error {
	b.end.Partial = "interrupted"
	switch {
	case errors.Is(err, errBatchFull):
		b.end.Partial = "too-large"
		b.lines++
		if err := b.refuse(b.lines, entry.Refuse(entry.TooLarge, "", "more than %d lines or %d bytes in a batch", api.MaxRecoveryLines, api.MaxRecoveryBytes).
			WithRemedy("send the rest, from this line on, as a further batch")); err != nil {
			return err
		}
	case errors.Is(err, errDraining), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		broken, ok := errors.AsType[*failure](err)
		if !ok {
			return fmt.Errorf("server: read batch: %w", err)
		}
		b.lines++
		_ = errors.Join(b.tell(b.lines, broken), b.finish()) // the connection may be gone; the server's log has the problem
		return nil
	}
	return b.finish()
}

// finish writes the last line.
func (b *recoveryBatch) finish() error {
	head, err := b.tree.Head()
	if err != nil {
		return err
	}
	b.end.RunRoot = head.Root
	if b.end.Recorded, err = b.attempts.End(b.c.Request().Context()); err != nil {
		return err
	}
	if err := b.write(&api.RecoveryLine{End: &b.end}); err != nil {
		return err
	}
	return b.flush()
}

func (b *recoveryBatch) write(line *api.RecoveryLine) error {
	text, err := json.Marshal(line)
	b.out.Write(text)
	b.out.WriteByte('\n')
	return err
}

// flush sends the buffer. It fails if the client takes longer than the time limit to read.
func (b *recoveryBatch) flush() error {
	if b.out.Len() == 0 {
		return nil
	}
	if err := b.control.SetWriteDeadline(time.Now().Add(b.server.cfg.WriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	response := b.c.Response()
	if !response.Committed {
		response.Header().Set(echo.HeaderContentType, api.MediaNDJSON)
		response.Header().Set(echo.HeaderCacheControl, cacheNever)
		response.WriteHeader(http.StatusOK)
	}
	_, err := response.Write(b.out.Bytes())
	b.out.Reset()
	if err != nil {
		return err
	}
	return b.control.Flush()
}
