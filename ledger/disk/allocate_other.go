//go:build !linux && !darwin

package disk

import (
	"errors"
	"os"
)

// reserveBlocks is not known here.
func reserveBlocks(*os.File, int64) error { return errors.ErrUnsupported }
