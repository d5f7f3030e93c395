package audit_test

import (
	"context"
	"fmt"
	"os"

	"recoveryledger/api/client"
	"recoveryledger/coord/audit"
)

// An auditor who has pinned a ledger audits its log over HTTP.
func ExampleRun() {
	site, err := open(3, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = site.stop() }()
	ctx, url, root := context.Background(), site.url, site.root

	ledger, err := client.New(url, root, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	head, err := ledger.Head(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, report, err := audit.Run(ctx, ledger, root, head, audit.Config{})
	fmt.Println(report.Size, "entries are rightly in the log;", err)
	// Output: 5 entries are rightly in the log; <nil>
}

// An auditor audits the static files of an export, without any server.
func ExampleDir() {
	site, err := open(3, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = site.stop() }()
	ctx, dir, root := context.Background(), site.export, site.root

	export := audit.Dir{Files: os.DirFS(dir)}
	head, err := export.Head(root)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, report, err := audit.Run(ctx, export, root, head, audit.Config{})
	fmt.Println(report.Size, "entries are rightly in the log;", err)
	// Output: 5 entries are rightly in the log; <nil>
}
