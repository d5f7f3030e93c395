package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/process"
)

// message is an event on its way to an endpoint.
type message struct {
	id   string
	body []byte
}

// sink takes the messages of an endpoint.
type sink interface {
	// send returns nil once the endpoint has taken the message. wait is the time that the endpoint
	// asks for before the next attempt; 0: none.
	send(ctx context.Context, m *message) (wait time.Duration, err error)
}

// newSink returns the sink of an endpoint.
func newSink(e *Endpoint) (sink, error) {
	if len(e.Exec) > 0 {
		return &program{e.Exec}, nil
	}
	secrets, wrong := e.secrets()
	if wrong != nil {
		return nil, wrong
	}
	s := &post{url: e.URL, client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the message is for this endpoint alone
	}}}
	for _, secret := range secrets {
		signer, err := webhooks.NewWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("%s: a secret cannot be used", e.Secret)
		}
		s.signers = append(s.signers, signer)
	}
	return s, nil
}

// post sends messages over HTTP, signed as Standard Webhooks says. Each secret signs, so that a
// receiver can change its secret.
type post struct {
	url     string
	client  *http.Client
	signers []*webhooks.Webhook
}

// answerMax is the number of bytes of an answer that are read.
const answerMax = 4 << 10

// waitMax is the longest wait that an endpoint may ask for.
const waitMax = time.Hour

func (p *post) send(ctx context.Context, m *message) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(m.body))
	if err != nil {
		return 0, err
	}
	now := time.Now()
	signatures := make([]string, len(p.signers))
	for i, signer := range p.signers {
		if signatures[i], err = signer.Sign(m.id, now, m.body); err != nil {
			return 0, err
		}
	}
	request.Header.Set("Content-Type", event.ApplicationCloudEventsJSON+"; charset=utf-8")
	request.Header.Set("User-Agent", "arl")
	request.Header.Set(webhooks.HeaderWebhookID, m.id)
	request.Header.Set(webhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(webhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	answer, err := p.client.Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, answerMax)) // so that the connection can be used again
	if err := answer.Body.Close(); err != nil {
		return 0, err
	}
	if answer.StatusCode/100 == 2 {
		return 0, nil
	}
	wait := time.Duration(0)
	if ms := scenario.RetryAfterMS(answer.Header.Get("Retry-After")); ms != nil {
		wait = time.Duration(min(*ms, waitMax.Milliseconds())) * time.Millisecond
	}
	return wait, fmt.Errorf("the endpoint answers %s", answer.Status)
}

// program runs a program for each message.
type program struct{ words []string }

// outputMax is the number of bytes that a program may print.
const outputMax = 64 << 10

func (p *program) send(ctx context.Context, m *message) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, p.words[0], p.words[1:]...)
	cmd.Stdin = bytes.NewReader(m.body)
	// The ledger's environment may have its passphrase. No name begins with ARL_, since arl refuses
	// those that are none of its settings, and the program may run arl.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "NOTIFICATION_ID=" + m.id}
	process.Group(cmd)
	cmd.WaitDelay = process.Grace
	_, err := process.Run(cmd, outputMax)
	if ctx.Err() != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	return 0, err
}
