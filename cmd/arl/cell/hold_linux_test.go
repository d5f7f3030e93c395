package cell

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestHeldPortIsForWhoKnowsIt: whoever knows a held port can listen there. A port at which somebody
// listens cannot be held.
func TestHeldPortIsForWhoKnowsIt(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} {
		free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		at, ok := free.Addr().(*net.TCPAddr)
		if err := free.Close(); err != nil || !ok {
			t.Fatal(err, ok)
		}
		release, err := hold(at)
		if err != nil {
			t.Fatal(err)
		}
		served, err := new(net.ListenConfig).Listen(t.Context(), "tcp", at.String())
		if err != nil {
			t.Fatalf("who knows the port cannot listen: %v", err)
		}
		if _, err := hold(at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a port at which somebody listens is held: %v", err)
		}
		for _, closes := range []func() error{release, served.Close} {
			if err := closes(); err != nil {
				t.Error(err)
			}
		}
	}
}
