package conformance

import (
	"io/fs"
	"maps"
	"slices"
)

// Cases returns the names of the vectors in a directory that a verifier judges, sorted.
func Cases(vectors fs.FS) ([]string, error) {
	files, err := readVectors(vectors)
	return slices.Sorted(maps.Keys(files)), err
}
