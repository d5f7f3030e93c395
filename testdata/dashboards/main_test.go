package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const committed = "../../docs/operations/dashboards"

// TestCommitted compares the dashboards with the files of the repository.
func TestCommitted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(committed, "*.json"))
	if err != nil || len(files) != len(boards) {
		t.Errorf("%d files, want %d: %v", len(files), len(boards), err)
	}
	for _, b := range boards {
		want, err := b.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(committed, b.name+".json"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale: cd testdata/dashboards && go run . %s (%v)", b.name, committed, err)
		}
	}
}

// TestQuestions wants of each dashboard and panel what it asks, and a query.
func TestQuestions(t *testing.T) {
	for _, b := range boards {
		if b.asks == "" || len(b.panels) < 6 {
			t.Errorf("%s asks %q with %d panels", b.name, b.asks, len(b.panels))
		}
		for _, p := range b.panels {
			if p.title == "" || p.asks == "" || p.unit == "" || len(p.queries) == 0 {
				t.Errorf("%s: panel %+v", b.name, p)
			}
		}
	}
}
