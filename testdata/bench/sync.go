package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// bareSync returns the median time of appending 1 KiB to a file and syncing its
// data, in microseconds.
func bareSync(b *bench, dir string) (p50 float64, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "bare"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	line := make([]byte, entrySize)
	return latency(b.time, func() (bool, error) {
		if _, err := file.Write(line); err != nil {
			return false, err
		}
		return true, syscall.Fdatasync(int(file.Fd()))
	})
}
