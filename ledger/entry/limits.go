package entry

// Limits of everything that is read from outside. Each is tested at the limit
// and one past it.
const (
	// MaxEnvelope is the size of an envelope in bytes. Its leaf then fits the
	// 65,535 bytes of an entry in a tlog-tiles bundle.
	MaxEnvelope = 48 << 10
	// MaxDepth is how deep arrays and objects of a payload may nest.
	MaxDepth = 16
	// MaxInteger is the largest magnitude of a number: 2^53 − 1.
	MaxInteger = 1<<53 - 1
	// MaxName is the length of a principal, a local id or a workflow id.
	MaxName = 128
	// MaxText is the length in bytes of a detail or a reason.
	MaxText = 1 << 10
	// MaxParents is the number of parents of an execution.
	MaxParents = 256
	// MaxList is the length of every other list in a payload.
	MaxList = 256
	// MaxAlso is how many further cases an attempt has.
	MaxAlso = 128
	// MaxKeyID is the length of a key id: "SHA256:" and 43 characters.
	MaxKeyID = 50

	// MaxLeases is the number of leases that one renewal names.
	MaxLeases = 128
	// MaxRenewal is the size of a renewal in bytes: the longest names of MaxLeases
	// fit, and some that come to an end.
	MaxRenewal = 64 << 10
	// MaxRetries is how often a task may say that it is tried again.
	MaxRetries = 100
	// MaxAttempts is how often a snapshot may say that a task was tried.
	MaxAttempts = 64
	// MinLeaseMS and MaxLeaseMS bound the term of a task's lease.
	MinLeaseMS = 1_000
	MaxLeaseMS = 24 * 60 * 60 * 1000

	maxMembers = 64   // members of the payload object
	maxSig     = 72   // an ECDSA P-256 signature in DER; Ed25519 has 64
	maxKeyDER  = 2048 // a P-256 SubjectPublicKeyInfo has 91; larger ones are refused by name
	maxURI     = 1024 // evidence location
	maxToken   = 64   // class, code, capability and other open words
)
