package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// bare is a program that answers renewals by the least that Echo does.
func bare() {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.POST("/v1/tasks/:id/lease", func(c echo.Context) error {
		var r entry.SignedRenewal
		if err := c.Bind(&r); err != nil {
			return err
		}
		one := &r.Leases[0]
		return c.JSON(http.StatusOK, api.Lease{Task: one.Task, Agent: r.Iss, Epoch: one.Epoch, Session: r.Session, Seq: r.Seq})
	})
	var err error
	if e.Listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"); err == nil {
		fmt.Println("http://" + e.Listener.Addr().String())
		err = e.Start("")
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
