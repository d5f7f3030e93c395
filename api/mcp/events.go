package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// event is a server-sent event, with the members that streamable HTTP uses.
type event struct {
	name, id string
	data     []byte
	retry    time.Duration // 0: none is asked for
}

// EventError reports an event of a server that is larger than a message may be.
type EventError struct{ Max int }

// Error implements error.
func (e *EventError) Error() string {
	return fmt.Sprintf("mcp: the server sends an event of more than %d bytes", e.Max)
}

// readEvents reads events to the end of a stream, or until each returns false. An event that breaks
// off is dropped. The error is an [*EventError], or that of the stream.
func readEvents(stream io.Reader, each func(event) bool) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, sdk.DefaultMaxLineLength)
	var e event
	for lines.Scan() {
		line := bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))
		if len(line) == 0 {
			e.data = bytes.TrimSuffix(e.data, []byte("\n"))
			if !each(e) {
				return nil
			}
			e = event{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "id":
			e.id = string(value)
		case "data":
			e.data = append(append(e.data, value...), '\n')
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
		if len(e.data) > sdk.DefaultMaxLineLength {
			return &EventError{sdk.DefaultMaxLineLength}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return &EventError{sdk.DefaultMaxLineLength}
	}
	return lines.Err()
}
