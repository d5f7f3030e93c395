package fair

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// TestListener opens connections up to the bound: the next one is closed at once, and one that is
// closed makes room for another.
func TestListener(t *testing.T) {
	t.Parallel()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var opened, closed, refused atomic.Int64
	count := func(n *atomic.Int64) func() { return func() { n.Add(1) } }
	l := &Listener{Listener: bare, Open: NewBudget(2, 2), Client: func(string) string { return "one" },
		Opened: count(&opened), Closed: count(&closed), Refused: count(&refused)}
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", bare.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	dial()
	first := <-accepted
	dial()
	<-accepted
	over := dial()
	if _, err := over.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection over the bound: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	dial()
	<-accepted
	_ = first.Close() // a second close frees no second place
	if opened.Load() != 3 || closed.Load() != 1 || refused.Load() != 1 {
		t.Errorf("%d opened, %d closed, %d refused", opened.Load(), closed.Load(), refused.Load())
	}
	if err := bare.Close(); err != nil {
		t.Error(err)
	}
	if _, more := <-accepted; more {
		t.Error("a closed listener accepts")
	}
}
