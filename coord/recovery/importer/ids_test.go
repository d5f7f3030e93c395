package importer

import "testing"

// The id of the one case of a file is its folder and its stem.
func TestFileID(t *testing.T) {
	for file, want := range map[string]string{"a/b/c.ga": "b/c", "c.ga": "c", "/c.json": "c", "./c.json": "c", "../c.json": "c"} {
		if got := fileID(file); got != want {
			t.Errorf("file %s: %s, want %s", file, got, want)
		}
	}
}
