// Package js has the verifier in JavaScript as files, so that a program can serve the
// verifier to browsers (docs/javascript.md).
package js

import (
	"embed"
	"io/fs"
)

//go:embed src/*.js
var files embed.FS

// Files returns the modules. Each imports others of them alone; index.js is the one to
// import.
func Files() fs.FS {
	sub, err := fs.Sub(files, "src")
	if err != nil {
		panic(err) // the name is a valid path
	}
	return sub
}
