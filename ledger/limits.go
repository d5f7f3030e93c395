package ledger

// Limits of the log.
const (
	// MaxBatch is the number of entries one submission may carry.
	MaxBatch = 4096

	maxPending    = 4096     // submissions that wait for the order
	maxLanes      = 1 << 16  // keys with remembered refusals
	maxCommit     = 1024     // entries of one commit, if more than one submission shares it
	tileCacheSize = 512      // full tiles in memory, 16 KiB each
	memTableSize  = 16 << 20 // bytes of recent writes in memory
	blockCache    = 96 << 20 // bytes of stored blocks in memory, recent writes included
	nodeCache     = 48 << 20 // the same in a node of a cluster, which has etcd beside it
	blockSize     = 16 << 10 // bytes of a stored block before compression; what a block costs to read and write hardly depends on it
	bulkChunk     = 256      // entries that are read at once, ahead of a reader of all entries
	bulkAhead     = 8        // chunks that wait for it: with few, processors sleep and have to be woken
	chunkSize     = 64 << 10 // bytes of a snapshot that travel in one commit
)
