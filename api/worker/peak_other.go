//go:build !unix

package worker

import "os"

// peak returns 0: the peak is not known here.
func peak(*os.ProcessState) int64 { return 0 }
