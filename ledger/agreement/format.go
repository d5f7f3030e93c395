package agreement

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrFormat reports a format of batches that this program does not know.
var ErrFormat = errors.New("agreement: this version of arl is too old for its cluster")

// formatMax is the largest format that a digit can name.
const formatMax = 9

// newest is the newest format that this build knows. All formats until now differ in their number
// alone. A build may know another one, to try an upgrade with two programs of one source:
//
//	go build -ldflags '-X recoveryledger/ledger/agreement.newest=2' ./cmd/arl
var newest = "1"

// Newest returns the newest format of batches that this program knows: 1 to 9. It knows all before
// that one, too. A cluster goes on with an older one until all its nodes know the newer.
func Newest() int {
	n, err := strconv.Atoi(newest)
	if err != nil {
		return 1
	}
	return min(max(n, 1), formatMax)
}

// FormatError returns an [ErrFormat] about something that has a newer format.
func FormatError(what string, format int) error {
	return fmt.Errorf("%w: %s has format %d, and this program knows formats up to %d: start the node with the version of arl that the other nodes have",
		ErrFormat, what, format, Newest())
}
