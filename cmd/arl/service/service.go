// Package service is the side of arl serve that the service manager sees: systemd is told when the
// ledger is ready, that it is alive and that it stops, and may have opened the listener.
//
// Without systemd nothing is told, and the listener is opened here.
package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Listener is a listener whose Accept can be interrupted.
type Listener interface {
	net.Listener
	SetDeadline(t time.Time) error
}

// Listen returns the listener that the service manager opened, a [Given], otherwise a new listener
// on the TCP address. It also returns the address that was asked for.
func Listen(ctx context.Context, address string) (Listener, string, error) {
	given, err := activation.Listeners()
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("the listener of the service manager: %w", err)
	case len(given) == 0:
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, "", err
		}
		return listener.(*net.TCPListener), address, nil // as package net says of this network
	case len(given) > 1 || given[0] == nil || given[0].Addr().Network() != "tcp":
		return nil, "", fmt.Errorf("the service manager opened %d sockets: want one ListenStream of TCP", len(given))
	}
	opened, ok := given[0].(*net.TCPListener)
	if !ok {
		return nil, "", fmt.Errorf("the service manager opened a %T: want one ListenStream of TCP", given[0])
	}
	socket, err := opened.File()
	if err != nil {
		return nil, "", fmt.Errorf("the listener of the service manager: %w", err)
	}
	return &Given{opened, socket}, opened.Addr().String(), nil
}

// Given is a listener at a socket of the service manager. The service manager holds the socket and
// its address, so that connections wait after Close.
type Given struct {
	*net.TCPListener
	socket *os.File // open until the process ends
}

// Again returns another listener at the socket.
func (g *Given) Again() (net.Listener, error) { return net.FileListener(g.socket) }

// Ready tells that the ledger takes entries, and says what the status line of the service says.
// From then on it tells that the process is alive whenever check returns nil, twice in the time
// after which the service manager ends a process that tells nothing. It returns when ctx ends, and
// tells before that the process stops. A check that does not return is the case that the watchdog
// is for: nothing is told then, except the stop.
func Ready(ctx context.Context, status string, check func(context.Context) error) error {
	stops := sync.OnceFunc(func() { _ = Stopping() }) // the process ends anyway
	forget := context.AfterFunc(ctx, stops)
	defer func() {
		if forget(); ctx.Err() != nil {
			stops() // the function of the context may not have begun
		}
	}()
	if err := tell(daemon.SdNotifyReady + "\nSTATUS=" + status); err != nil {
		return err
	}
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("the watchdog of the service manager: %w", err)
	}
	if every == 0 {
		<-ctx.Done()
		return nil
	}
	for clock := time.NewTicker(every / 2); ; {
		if check(ctx) == nil {
			if err := tell(daemon.SdNotifyWatchdog); err != nil {
				return err
			}
		}
		select {
		case <-clock.C:
		case <-ctx.Done():
			clock.Stop()
			return nil
		}
	}
}

// Status sets the status line of the service, for what happens before it is ready.
func Status(text string) error { return tell("STATUS=" + text) }

// Stopping tells that the process ends. The service manager watches it no longer, and waits for its
// end.
func Stopping() error { return tell(daemon.SdNotifyStopping) }

// Managed reports whether a service manager is told anything.
func Managed() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

func tell(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}
