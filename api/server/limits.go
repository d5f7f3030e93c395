package server

import "time"

// DefaultConnections is the number of connections at a time, if
// [Config].Connections says nothing.
const DefaultConnections = 8192

// Limits on all input from outside. Package api has the limits of a body and of a query.
// [Config] documents the defaults of the limits that can be set.
const (
	maxHeaderBytes = 16 << 10
	maxRequestID   = 64
	// maxBatchMemory bounds the bodies of all batches under way, in bytes.
	// maxClientBatchMemory bounds the bodies of the batches of one client.
	maxBatchMemory       = 256 << 20
	maxClientBatchMemory = maxBatchMemory / 2
	// maxScan is the number of entries that one page looks at. A page of a rare combination
	// of filters may end before it is full.
	maxScan = 8192
	// maxStreams is the number of event streams at a time. maxClientStreams is the number
	// of streams of one client.
	maxStreams       = 1024
	maxClientStreams = maxStreams / 2
	// maxLanes is the number of clients whose refusals are remembered, for their lanes.
	maxLanes = 4096
	// streamBlock is the number of entries that an event stream reads at once.
	streamBlock = 256
	// maxBundles is the number of bundles made at a time. Making a bundle takes about ten
	// times the size of the bundle.
	maxBundles = 4
	// maxSamples is the number of sorts of refusals that the log tells apart in an interval.
	// maxClientSamples is the number of sorts of one client. A sort has at most two records.
	// maxLogged is the size, in bytes, of a client's text in a member of a record.
	maxSamples       = 128
	maxClientSamples = 16
	maxLogged        = 256
	// compressMin is the size of the smallest answer that is compressed.
	compressMin = 1 << 10
	// maxPooled is the capacity of the largest buffer that is kept for reuse.
	maxPooled = 1 << 20

	// maxEvidence is the size of the evidence file in bytes. maxIssuerEvidence is the number of
	// objects of one issuer in the file. One object convicts the issuer. maxLeft is the number of
	// further objects that are remembered, so that each counts once.
	maxEvidence       = 64 << 20
	maxIssuerEvidence = 16
	maxLeft           = 1024

	rateDefault          = 5000 // requests a second from one address
	headerTimeoutDefault = 5 * time.Second
	readTimeoutDefault   = time.Minute
	writeTimeoutDefault  = time.Minute
	idleTimeoutDefault   = 2 * time.Minute
	Grace                = 30 * time.Second // in which a server that stops answers what it has accepted, by default
	heartbeatDefault     = 15 * time.Second
	sampleInterval       = 10 * time.Minute
	reachAgainMS         = 100             // until a request comes back that waited for a size of the log, or for a leader
	rateMemory           = 3 * time.Minute // after which an idle address is forgotten
)

// Values of Cache-Control. Only an answer that never changes may be cached. The published head
// may be cached for a moment.
const (
	cacheNever   = "no-store"
	cacheAsk     = "no-cache" // a client may keep it, and must ask each time
	cacheMoment  = "public, max-age=1"
	cacheForever = "public, max-age=31536000, immutable"
)
