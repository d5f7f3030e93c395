package keys

import (
	"time"

	"recoveryledger/ledger/entry"
)

const (
	// maxFile is the size of a key file in bytes. An encrypted one has about 600.
	maxFile = 16 << 10
	// kmsWait is how long an answer of a KMS may take.
	kmsWait = 10 * time.Second
	// kmsPauseFirst and kmsPauseLongest bound the pause after which a KMS that failed is asked
	// again.
	kmsPauseFirst, kmsPauseLongest = 100 * time.Millisecond, 5 * time.Second
	// headsKept is how many signatures of a ledger's key in a KMS are kept, to answer readers
	// without the KMS.
	headsKept = 256
	// maxLedgers is the highest number of a ledger's key file.
	maxLedgers = 99
	// maxOrigin is the length of a ledger's origin in bytes: every entry carries
	// it as aud.
	maxOrigin = entry.MaxName
	// tablesDefault is how many keys a verifier keeps tables of, 40 KiB each.
	tablesDefault = 1024
	// checksBeforeTable is how often a key is checked before it gets one.
	checksBeforeTable = 16
)
