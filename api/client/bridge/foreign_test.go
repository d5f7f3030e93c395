package bridge

import (
	"fmt"
	"strings"
	"testing"
)

const leafHash = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

func parent(changed ...string) string {
	text := fmt.Sprintf(`{"origin":"a.example/log","exec":"planner#plan","index":17,"leaf_hash":%q}`, leafHash)
	return strings.NewReplacer(changed...).Replace(text)
}

// TestForeignOf reads the parents of an execution, and refuses what names none.
func TestForeignOf(t *testing.T) {
	for payload, want := range map[string]int{
		`{"exec":"x"}`: 0, `{"foreign":[]}`: 0, `{"exec":"x","foreign":[` + parent() + `]}`: 1, `{"foreign":[` + parent() + `,` + parent(`17`, `18`) + `]}`: 2,
	} {
		got, err := foreignOf([]byte(payload))
		if err != nil || len(got) != want {
			t.Errorf("%s: %+v, %v", payload, got, err)
		}
		if want > 0 && (got[0].Origin != "a.example/log" || got[0].Exec != "planner#plan" || got[0].Index != 17) {
			t.Errorf("%s: %+v", payload, got[0])
		}
	}
	for what, payload := range map[string]string{
		"no JSON":           `{`,
		"no list":           `{"foreign":{}}`,
		"no origin":         `{"foreign":[` + parent("a.example/log", "") + `]}`,
		"no issuer":         `{"foreign":[` + parent("planner#", "#") + `]}`,
		"no id":             `{"foreign":[` + parent("#plan", "#") + `]}`,
		"an index below 0":  `{"foreign":[` + parent("17", "-1") + `]}`,
		"no leaf hash":      `{"foreign":[` + parent(leafHash, "") + `]}`,
		"a hash of zeros":   `{"foreign":[` + parent(leafHash, strings.Repeat("A", 43)+"=") + `]}`,
		"an unknown member": `{"foreign":[` + parent(`"index"`, `"place"`) + `]}`,
		"one too many":      `{"foreign":[` + strings.Repeat(parent()+",", maxForeign) + parent() + `]}`,
	} {
		if got, err := foreignOf([]byte(payload)); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// FuzzForeignOf looks for payloads that panic, or give parents that name nothing.
func FuzzForeignOf(f *testing.F) {
	f.Add([]byte(`{"foreign":[` + parent() + `]}`))
	f.Add([]byte(`{"foreign":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		parents, err := foreignOf(payload)
		if err != nil && parents != nil {
			t.Errorf("%v beside %+v", err, parents)
		}
		for _, p := range parents {
			if issuer, id := p.Exec.Split(); p.Origin == "" || issuer == "" || id == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
