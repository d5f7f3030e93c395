package server

import "time"

// DefaultConnections is the number of connections at a time, if
// [Config].Connections says nothing.
const DefaultConnections = 8192

// Limits of everything that comes from outside; package api has those of a
// body and of a query. [Config] has the defaults of those that can be set.
const (
	maxHeaderBytes = 16 << 10
	maxRequestID   = 64
	// maxBatchMemory is what the bodies of all batches under way may take
	// together, maxClientBatchMemory what those of one client may take.
	maxBatchMemory       = 256 << 20
	maxClientBatchMemory = maxBatchMemory / 2
	// maxScan is the number of entries that one page looks at: a page of a rare
	// combination of filters may end before it is full.
	maxScan = 8192
	// maxIncidentScan is the number of incidents that one page looks at, and
	// incidentBlock how many of them at once.
	maxIncidentScan = 4096
	incidentBlock   = 128
	// maxTaskScan is the number of tasks that one page looks at.
	maxTaskScan = 16384
	// maxStreams is the number of event streams at a time, maxClientStreams that
	// of one client.
	maxStreams       = 1024
	maxClientStreams = maxStreams / 2
	// maxLanes is the number of clients whose refusals are remembered, for their lanes.
	maxLanes = 4096
	// streamBlock is the number of entries that an event stream reads at once.
	streamBlock = 256
	// maxBundles is how many bundles are made at a time: each takes some ten times its
	// size.
	maxBundles = 4
	// maxSamples is the number of sorts of refusals that the log tells apart in an
	// interval, maxClientSamples those of one client: it has at most two records of
	// each. maxLogged is what a client can write into a member of a record, in bytes.
	maxSamples       = 128
	maxClientSamples = 16
	maxLogged        = 256
	// compressMin is the size from which on an answer is compressed.
	compressMin = 1 << 10
	// maxPooled is the capacity of the largest buffer that is kept for reuse.
	maxPooled = 1 << 20

	// maxEvidence is the size of the evidence file in bytes; maxIssuerEvidence is the
	// number of objects in it that one issuer signed: one convicts it.
	maxEvidence       = 64 << 20
	maxIssuerEvidence = 16

	rateDefault          = 5000 // requests a second from one address
	headerTimeoutDefault = 5 * time.Second
	readTimeoutDefault   = time.Minute
	writeTimeoutDefault  = time.Minute
	idleTimeoutDefault   = 2 * time.Minute
	graceDefault         = 30 * time.Second
	heartbeatDefault     = 15 * time.Second
	sampleInterval       = 10 * time.Minute
	rateMemory           = 3 * time.Minute // after which an idle address is forgotten
)

// Caching. Nothing may be cached but what never changes, and for a moment the
// published head.
const (
	cacheNever   = "no-store"
	cacheAsk     = "no-cache" // may be kept, and is to be asked about each time
	cacheMoment  = "public, max-age=1"
	cacheForever = "public, max-age=31536000, immutable"
)
