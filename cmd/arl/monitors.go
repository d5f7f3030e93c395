package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
)

// monitorTime is how long a monitor may take to answer.
const monitorTime = 10 * time.Second

// monitors are URLs of those who are told of a fork (AGT-1).
type monitors []string

func (m monitors) check() error {
	for _, monitor := range m {
		if u, err := url.Parse(monitor); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return usage("--monitor %s: want a URL that begins with http:// or https://", monitor)
		}
	}
	return nil
}

// tell posts to each monitor what shows that a log contradicts itself, if err
// does: the same JSON that is kept as evidence. The error names who did not take
// it.
func (m monitors) tell(ctx context.Context, err error) error {
	found, ok := contradiction(err)
	if !ok || len(m) == 0 {
		return nil
	}
	evidence, failed := json.Marshal(found.evidence, json.Deterministic(true))
	if failed != nil {
		return failed
	}
	for _, monitor := range m {
		if err := post(ctx, monitor, evidence); err != nil {
			failed = errors.Join(failed, fmt.Errorf("--monitor %s was not told of it: %w", monitor, err))
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
