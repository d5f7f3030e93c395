package listen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"recoveryledger/cmd/arl/exit"

	"github.com/go-json-experiment/json"
	"github.com/spf13/pflag"
)

// monitorTime is the time that a monitor may take to answer.
const monitorTime = 10 * time.Second

// Monitors are URLs that get the evidence of a fork (AGT-1).
type Monitors []string

// Check refuses a text that is no URL of a monitor.
func (m Monitors) Check() error {
	for _, monitor := range m {
		if u, err := url.Parse(monitor); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return exit.Usagef("--monitor %s: want a URL that begins with http:// or https://", monitor)
		}
	}
	return nil
}

// Register adds the flag that names monitors.
func (m *Monitors) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar((*[]string)(m), "monitor", nil, "URL to post evidence of a fork to, as JSON; may be repeated")
}

// Join tells the monitors of the error of a command, as Tell does. It returns this error, joined
// with the error of Tell.
func (m Monitors) Join(ctx context.Context, err error) error {
	if failed := m.Tell(context.WithoutCancel(ctx), err); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// Tell posts the evidence to each monitor if err says that a log contradicts itself. The evidence
// is the same JSON as in the evidence file. The error names the monitors that did not accept the
// evidence.
func (m Monitors) Tell(ctx context.Context, err error) error {
	found, ok := exit.Contradicted(err)
	if !ok || len(m) == 0 {
		return nil
	}
	evidence, failed := json.Marshal(found.Evidence, json.Deterministic(true))
	if failed != nil {
		return failed
	}
	for _, monitor := range m {
		if err := post(ctx, monitor, evidence); err != nil {
			failed = errors.Join(failed, fmt.Errorf("--monitor %s did not get the evidence: %w", monitor, err))
		}
	}
	return failed
}

func post(ctx context.Context, to string, evidence []byte) error {
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(evidence))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	return nil
}
