package verify

// Limits of everything that is read from outside. Each is tested at the limit
// and one past it.
const (
	// MaxLeaf is the size of a leaf in bytes (c2sp.org/tlog-tiles).
	MaxLeaf = 1<<16 - 1
	// MaxPath is the number of hashes in a proof: an inclusion proof in the
	// largest tree has 64, a consistency proof one more.
	MaxPath = 65
	// MaxNote is the size of a signed tree head in bytes. An ML-DSA-44
	// cosignature takes 3.3 KB of it.
	MaxNote = 128 << 10
	// MaxReceipt is the size of the JSON of a receipt, of a consistency proof
	// or of a .tlog-proof in bytes.
	MaxReceipt = 4 * MaxNote
	// MaxRoot is the size of the file of a pinned root in bytes.
	MaxRoot = 64 << 10
	// MaxKeys is the number of ledger keys in a pinned root, or in a policy.
	MaxKeys = 8
	// MaxRetired is the number of ledger keys in a root that are no longer in force.
	MaxRetired = 64
	// MaxFile is the size of a file given to [Material.Add] in bytes.
	MaxFile = 64 << 20
	// MaxItems is the number of receipts, proofs, leaves and heads in a
	// [Material].
	MaxItems = 100_000
	// MaxLeaves is the number of leaves for .tlog-proof files in a [Material]:
	// each is tried on each proof.
	MaxLeaves = 256
	// MaxSubjects is the number of subjects in an [Indexed].
	MaxSubjects = 1024
	// MaxWitnesses is the number of witnesses in a witness policy, and of groups.
	MaxWitnesses = 64
)
