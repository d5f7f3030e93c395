//go:build !unix

package worker

import "os"

// peak is not known.
func peak(*os.ProcessState) int64 { return 0 }
