package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// postEntries is POST /v1/entries: one envelope, or a batch of them.
func (s *Server) postEntries(r *request) error {
	c, q := r.c, queryOf[api.ReceiptQuery](r)
	mediaType := c.Request().Header.Get(echo.HeaderContentType)
	if mediaType != api.MediaJSON && mediaType != api.MediaNDJSON {
		mediaType, _, _ = mime.ParseMediaType(mediaType) // a malformed type is unsupported
	}
	encoding := c.Request().Header.Get(echo.HeaderContentEncoding)
	switch {
	case encoding != "":
		return unsupported("Content-Encoding", encoding)
	case mediaType == api.MediaJSON, mediaType == api.MediaDSSE:
		return s.postEntry(r)
	case mediaType == api.MediaNDJSON && q.Witnessed:
		return entry.Refuse(entry.Malformed, "witnessed", "the answer to a batch is under the ledger's own tree head").
			WithRemedy("ask for the receipts of its entries, GET " + api.PathReceipt + "?witnessed=true")
	case mediaType == api.MediaNDJSON && q.Links:
		return entry.Refuse(entry.Malformed, "links", "the answer to a batch has no receipts").
			WithRemedy("ask for the receipts of its entries, GET " + api.PathReceipt + "?links=true")
	case mediaType == api.MediaNDJSON:
		return s.postBatch(c)
	}
	return unsupported("Content-Type", mediaType)
}

func unsupported(header, content string) error {
	return &failure{Problem: api.NewStatus(http.StatusUnsupportedMediaType, header+" "+strconv.QuoteToASCII(content)+" is not taken here",
		"send an envelope as "+api.MediaJSON+", or one on each line as "+api.MediaNDJSON+", uncompressed")}
}

// postEntry registers one envelope and answers with its receipt. With links, the answer has
// the receipts of the policies and keys that let the signer in, too.
func (s *Server) postEntry(r *request) error {
	c := r.c
	buf := s.buffer()
	defer s.put(buf)
	var err error
	if *buf, err = readBody(c.Request(), *buf, entry.MaxEnvelope); err != nil {
		return err
	}
	turn, err := s.enter(c)
	if err != nil {
		return err
	}
	defer turn.end()
	e, err := entry.Decode(*buf)
	if err != nil {
		turn.refused(1)
		return err
	}
	answer, err := turn.submit(c, e)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		s.setKey(c, e.KeyID)
		s.keepEvidence(c, e, answer.Refused)
		return answer.Refused
	}
	registered := answer.Registered[0]
	turn.end() // a wait for witnesses keeps no other request out
	receipt, err := receiptOf(answer, registered, e)
	if err != nil {
		return err
	}
	if receipt, err = s.upgrade(c.Request().Context(), r, receipt); err != nil {
		return err
	}
	*buf = appendReceipt((*buf)[:0], receipt)
	status := http.StatusCreated
	if registered.Duplicate {
		status = http.StatusOK
	}
	header := c.Response().Header()
	header.Set(api.HeaderRegisteredAt, strconv.FormatInt(registered.RegisteredAt, 10))
	header.Set(echo.HeaderLocation, api.URL(api.PathEntry, nil, registered.Index))
	if queryOf[api.ReceiptQuery](r).Links {
		return s.answerLinks(c, status, receipt)
	}
	return s.answer(c, status, api.MediaJSON, *buf)
}

// receiptOf returns the receipt of e. It reads the leaf of a duplicate from the log, since the
// log may have another valid signature over the same bytes.
func receiptOf(answer *ledger.Answer, registered ledger.Registration, e *entry.Entry) (*verify.Receipt, error) {
	if registered.Duplicate {
		return answer.Receipt(registered.Index)
	}
	proof, err := answer.Proof(registered.Index)
	if err != nil {
		return nil, err
	}
	return &verify.Receipt{Leaf: e.AppendLeaf(nil, registered.RegisteredAt), Index: registered.Index, Proof: proof, Head: answer.Head.Note}, nil
}

// postBatch registers an ordered prefix of the lines (REG-10). If it registers no entry, the
// answer is the problem, as for one envelope.
func (s *Server) postBatch(c echo.Context) error {
	body := s.batches.Body(clientOf(c), c.Request().Body)
	defer body.Release()
	entries, refused, err := readBatch(body)
	if err != nil {
		return err
	}
	turn, err := s.enter(c)
	if err != nil {
		return err
	}
	defer turn.end()
	if refused != nil {
		turn.refused(1)
	}
	answer := &ledger.Answer{}
	if len(entries) > 0 {
		if answer, err = turn.submit(c, entries...); err != nil {
			return err
		}
	}
	if answer.Refused != nil {
		refused = answer.Refused
		e := entries[len(answer.Registered)]
		s.setKey(c, e.KeyID)
		s.keepEvidence(c, e, refused)
	}
	if len(answer.Registered) == 0 {
		return refused
	}
	return s.answerBatch(c, answer, refused)
}

// answerBatch writes the head, a line for each registered entry, and the problem that ended
// the batch, if any.
func (s *Server) answerBatch(c echo.Context, answer *ledger.Answer, refused *entry.Refusal) error {
	buf := s.buffer()
	defer s.put(buf)
	out := appendBatchHead((*buf)[:0], answer.Head.Note)
	for _, registered := range answer.Registered {
		proof, err := answer.Proof(registered.Index)
		if err != nil {
			return err
		}
		out = appendBatchLine(out, &api.BatchLine{
			Index: registered.Index, RegisteredAt: registered.RegisteredAt, Duplicate: registered.Duplicate, Proof: proof,
		})
	}
	if refused != nil {
		f := asFailure(refused)
		s.occurred(c, f)
		c.Response().Header().Del(echo.HeaderRetryAfter) // the line says it
		line, err := json.Marshal(f.Problem)
		if err != nil {
			return err
		}
		out = append(append(out, line...), '\n')
	}
	*buf = out
	return s.answer(c, http.StatusOK, api.MediaNDJSON, out)
}

// readBatch decodes envelopes, one on each line, up to the first refused line. An error means
// that the body did not arrive. Then no line counts.
func readBatch(body io.Reader) (entries []*entry.Entry, refused *entry.Refusal, err error) {
	lines := bufio.NewReaderSize(body, entry.MaxEnvelope+len("\r\n"))
	total := 0
	for {
		line, err := lines.ReadSlice('\n')
		end := errors.Is(err, io.EOF)
		if end && len(line) == 0 {
			if len(entries) == 0 {
				refused = entry.Refuse(entry.Malformed, "", "a batch without lines")
			}
			return entries, refused, nil
		}
		total += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return entries, entry.Refuse(entry.TooLarge, "", "the line has more than %d bytes", entry.MaxEnvelope), nil
		case err != nil && !end:
			return nil, nil, err
		case len(entries) == api.MaxBatchLines || total > api.MaxBatchBytes:
			return entries, entry.Refuse(entry.TooLarge, "", "more than %d lines or %d bytes in a batch", api.MaxBatchLines, api.MaxBatchBytes).
				WithRemedy("send the rest, from this line on, as a further batch"), nil
		}
		e, err := entry.Decode(bytes.TrimRight(line, "\r\n"))
		if err != nil {
			refusal, ok := errors.AsType[*entry.Refusal](err)
			if !ok {
				return nil, nil, err
			}
			return entries, refusal, nil
		}
		if entries = append(entries, e); end {
			return entries, nil, nil
		}
	}
}
