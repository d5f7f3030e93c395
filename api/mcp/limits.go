package mcp

import (
	"time"

	"recoveryledger/ledger/entry"
)

// Limits of all input from outside. Tests check each limit at its value and one past it.
const (
	// MaxToolsFile is the size of a tools file in bytes.
	MaxToolsFile = 1 << 20
	// maxValues is the size of what is kept of one call for its compensation, in bytes of JSON.
	maxValues = 4 << 20
	// MaxJournal is the size of the journal in bytes from which on no call is taken that the
	// journal must keep for its compensation.
	MaxJournal = 256 << 20
	// maxKeepDays is the largest keep_days of a tools file.
	maxKeepDays = 36_500
	// maxDeclared is the number of tools that a server may list.
	maxDeclared = 4096
	// maxSessions is the number of sessions over HTTP at one time.
	maxSessions = 64
	// MaxRequests is the number of requests of a server that wait for the client at one time, in
	// one session. The proxy refuses a request above that with CodeTooMany.
	MaxRequests = 1024

	// maxInFlight bounds the calls of a session that are under way at one time. The parents of a
	// call overlap one another, so that no call has more parents than this.
	maxInFlight  = entry.MaxParents
	journalSlack = 4 << 20 // bytes that the journal may have beside twice what it keeps
	maxPages     = 64      // of a list of tools
	nameMax      = 64      // bytes of a tool's name in the id of an execution
	depthMax     = 64      // of an argument with templates in it
	toldMax      = 16      // times that a session tells of one kind of fault of its server
)

// CodeTooMany is the JSON-RPC error code for a server that asks more than the client answers.
const CodeTooMany = -32005

// Times that no flag changes.
const (
	listPause   = time.Minute     // after which a server that did not list its tools is asked again
	cancelGrace = 5 * time.Second // for the answer to a call that the client cancelled, or that the end of the proxy cuts off
	sendFirst   = 200 * time.Millisecond
	sendMost    = 10 * time.Second
	idleTime    = time.Hour       // of a session over HTTP without a request
	endTime     = 2 * time.Second // for a program to end once its input has, and again once it was told to
)
