package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/witness"
)

// witnessTime is how long a request to a witness may take, and an answer.
const witnessTime = 10 * time.Second

// ServeWitness answers what ledgers ask of a witness, and of its auditor unless that is
// nil, until ctx ends, and then lets the requests under way end. pair is the files of a
// certificate and its key, or two empty strings: no TLS.
func ServeWitness(ctx context.Context, both [2]*witness.Witness, on net.Listener, pair [2]string, logger *slog.Logger) error {
	cert, key := pair[0], pair[1]
	if host, _, _ := net.SplitHostPort(on.Addr().String()); cert == "" && !net.ParseIP(host).IsLoopback() {
		logger.Warn("LISTENING BEYOND LOOPBACK WITHOUT TLS: cosignatures are signed, and who asks is seen by the network")
	}
	failed := func(err error) { logger.Error("a tree head is not cosigned", "error", err.Error()) }
	mux := http.NewServeMux()
	mux.Handle("/", both[0].Handler(failed))
	if both[1] != nil {
		mux.Handle(AuditorPath+"/", http.StripPrefix(AuditorPath, both[1].Handler(failed)))
	}
	s := &http.Server{Handler: mux,
		ReadTimeout: witnessTime, WriteTimeout: witnessTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	answered := make(chan struct{})
	ended := context.AfterFunc(ctx, func() {
		defer close(answered)
		stop, over := context.WithTimeout(context.WithoutCancel(ctx), witnessTime)
		defer over()
		_ = s.Shutdown(stop) // a request that is cut off is sent again
	})
	defer ended()
	var err error
	if cert != "" {
		err = s.ServeTLS(on, cert, key)
	} else {
		err = s.Serve(on)
	}
	if errors.Is(err, http.ErrServerClosed) {
		<-answered
		return nil
	}
	return exit.With(exit.Config, err)
}
