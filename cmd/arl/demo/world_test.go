package demo

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDatabaseOfAnyName: the database is in the demo's directory, however that is
// called.
func TestDatabaseOfAnyName(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"plain", "a b", "q?x=y", "h#h", "p%41", "ü&+'\""} {
		d := directory(filepath.Join(parent, name))
		if err := d.rows(pricer).setPrices(offer, map[string]int{"screws": 4}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if prices, err := d.rows(pricer).prices(offer); err != nil || prices["screws"] != 4 {
			t.Errorf("%s: %v, %v", name, prices, err)
		}
		if _, err := os.Stat(d.path("work", string(pricer), "agent.db")); err != nil {
			t.Error(err)
		}
	}
	if list, err := os.ReadDir(parent); err != nil || len(list) != 6 {
		t.Errorf("%v, %v: want the six directories and nothing beside", list, err)
	}
}
