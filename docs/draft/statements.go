// Package draft holds what programs need of the Internet-Draft: which tests, vectors and cases hold
// an implementation to each of its statements.
package draft

import (
	_ "embed" // the relation
	"path"
	"slices"
	"strings"
)

//go:embed statements.txt
var relation string

// OfVector returns the ids of the statements that name a vector, such as bundle/expired, in the
// order of statements.txt. The list is empty where no statement names the vector.
func OfVector(name string) (ids []string) {
	for line := range strings.Lines(relation) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[1] != "vectors" || slices.Contains(ids, fields[0]) {
			continue
		}
		if is, err := path.Match(fields[2], name); err == nil && is {
			ids = append(ids, fields[0])
		}
	}
	return ids
}
