//go:build !unix

package supervise

import "os"

// peak is not known.
func peak(*os.ProcessState) int64 { return 0 }
