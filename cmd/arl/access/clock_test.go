package access

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// dated is a server that is far away: its answers have the date of its own clock.
type dated struct{ ahead time.Duration }

func (d *dated) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {time.Now().Add(d.ahead).UTC().Format(http.TimeFormat)}}}, nil
}

// TestServerClock lets time pass between answers whose dates are cut to seconds. The time of the
// server never goes back, is never after the server's own, and comes as close to it as the dates
// tell. A clock that is set back is followed.
func TestServerClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Millisecond, 10*time.Second + 600*time.Millisecond, -time.Hour - 600*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			server := &dated{ahead}
			clock := &ServerClock{next: server}
			ask := func() time.Duration {
				t.Helper()
				if _, err := clock.RoundTrip(nil); err != nil { //nolint:bodyclose // it has none
					t.Fatal(err)
				}
				skew, seen := clock.Skew()
				if !seen || skew > server.ahead || skew <= server.ahead-time.Second {
					t.Fatalf("%v (%t), and the server is ahead by %v", skew, seen, server.ahead)
				}
				return skew
			}
			last := ask()
			for range 100 {
				time.Sleep(930 * time.Millisecond)
				skew := ask()
				if skew < last {
					t.Fatalf("the time of the server went back from %v to %v", last, skew)
				}
				last = skew
			}
			if server.ahead-last > 10*time.Millisecond {
				t.Errorf("%v after 100 answers, and the server is ahead by %v", last, server.ahead)
			}
			server.ahead -= time.Minute
			ask()
		})
	}
}
