package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// witnessTime is the time limit of a request to a witness, and of the answer.
const witnessTime = 10 * time.Second

// WitnessServer answers the requests of ledgers to a witness.
type WitnessServer struct {
	Witness *witness.Witness
	Auditor *witness.Witness // of the witness; nil: none
	Pair    [2]string        // files of a certificate and its key; two empty strings: no TLS
	Logger  *slog.Logger
	// Tell sends evidence against a ledger to the monitors.
	Tell func(ctx context.Context, found error) error
}

// Run answers requests until ctx ends. It then waits for the requests under way.
func (w *WitnessServer) Run(ctx context.Context, on net.Listener) error {
	cert, key := w.Pair[0], w.Pair[1]
	logger := w.Logger
	if host, _, _ := net.SplitHostPort(on.Addr().String()); cert == "" && !net.ParseIP(host).IsLoopback() {
		logger.Warn("LISTENING BEYOND LOOPBACK WITHOUT TLS: cosignatures are signed, but the network sees who asks for them")
	}
	failed := func(err error) { logger.Error("a tree head is not cosigned", "error", err.Error()) }
	mux := http.NewServeMux()
	mux.Handle("/", w.Witness.Handler(failed))
	if w.Auditor != nil {
		mux.Handle(AuditorPath+"/", http.StripPrefix(AuditorPath, w.Auditor.Handler(failed)))
	}
	telling, told := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { w.tell(telling) })
	defer beside.Wait()
	defer told()
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

// tell sends evidence against a ledger to the monitors. The evidence is from the witness, from its
// auditor, or from earlier processes.
func (w *WitnessServer) tell(ctx context.Context) {
	var audited <-chan *verify.Evidence // nil: there is no auditor
	if w.Auditor != nil {
		audited = w.Auditor.Accused()
	}
	for {
		var e *verify.Evidence
		select {
		case e = <-w.Witness.Accused():
		case e = <-audited:
		case <-ctx.Done():
			return
		}
		w.Logger.Error("EVIDENCE AGAINST A LEDGER: GET /v1/evidence serves the document, and arl verify checks it", "kind", string(e.Kind), "detail", e.Detail)
		if err := w.Tell(ctx, exit.Contradicts("witness", e, errors.New(e.Detail))); err != nil {
			w.Logger.Error("a monitor does not know of the evidence", "error", err.Error())
		}
	}
}
