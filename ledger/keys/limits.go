package keys

import "recoveryledger/ledger/entry"

const (
	// maxFile is the size of a key file in bytes. An encrypted one has about 600.
	maxFile = 16 << 10
	// maxOrigin is the length of a ledger's origin in bytes: every entry carries
	// it as aud.
	maxOrigin = entry.MaxName
	// expandedDefault is how many keys a verifier keeps expanded, about 1.5 KiB
	// each.
	expandedDefault = 4096
)
