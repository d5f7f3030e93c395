package bundle

// Limits of bundles and of an agent's accepted state, beside those of verify. A test tries each
// limit at its value and one past it.
const (
	// MaxSize is the size of the JSON of a [Bundle] in bytes.
	MaxSize = 8 << 20
	// MaxEntries is the number of entries in a [Bundle], and of steps.
	MaxEntries = 8192
	// MaxMembers is the number of members in a [Bundle]. An agent that has more gets
	// them in several.
	MaxMembers = 4096
	// MaxAfter is the number of compensations before one in a [Bundle].
	MaxAfter = 256
	// MaxAccepted is the size of the JSON of an [Accepted] in bytes.
	MaxAccepted = 32 << 20
	// MaxLinks is the number of policies and agent entries in an [Accepted].
	MaxLinks = 16384
	// MaxIncidents is the number of incidents in an [Accepted].
	MaxIncidents = 65536
	// readMax is the number of entries that are remembered from one bundle to the
	// next, unless one has more.
	readMax = 1024
)
