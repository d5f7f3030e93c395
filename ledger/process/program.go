package process

import "path/filepath"

// Program returns the path of a program that is given by one relative to a
// directory. A mere name is looked up in PATH, and a path never becomes one, though
// the directory be the current one.
func Program(program, where string) string {
	if filepath.Base(program) == program || filepath.IsAbs(program) {
		return program
	}
	path := filepath.Join(where, program)
	if filepath.Base(path) == path {
		return "." + string(filepath.Separator) + path
	}
	return path
}
