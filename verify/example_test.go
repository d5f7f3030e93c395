package verify_test

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

//go:embed testdata/root.json
var pinnedRoot []byte // obtained out of band

//go:embed testdata/receipts.ndjson
var receipts []byte

// check is all it takes: receipts of entries, and of the policy and agent
// entries that let their keys in, against a pinned root.
func check(pinned, given []byte) (verify.Report, error) {
	root, err := verify.ParseRoot(pinned)
	if err != nil {
		return verify.Report{}, err
	}
	var material verify.Material
	if err := material.Add("receipts.ndjson", given); err != nil {
		return verify.Report{}, err
	}
	return root.Verify(material)
}

func Example() {
	report, err := check(pinnedRoot, receipts)
	if err != nil {
		fmt.Println(err)
	}
	for _, step := range report.Checked {
		fmt.Println(step)
	}
	for _, text := range report.NotChecked {
		fmt.Println("not checked:", text)
	}
	// Output:
	// 1 head (1): signed by the pinned Ed25519 key, for the pinned origin
	// 3 leaf (4): canonical bytes of one well-formed entry
	// 4 inclusion (4): at its index in the tree of its head
	// 5 order (4): one leaf for an index, registered_at never falls
	// 6 audience (4): made for the pinned origin
	// 7 signer (4): key let in by a chain from the pinned genesis, role allows the entry
	// 8 signature (4): of that key over the entry's PAE
	// not checked: witnesses: the root names none, so that a fork shown to nobody else stays unseen
	// not checked: absences: a revocation, a policy or any other entry that was not given
	// not checked: the state machine: references, windows and quotas need the whole log (arl log audit)
	// not checked: registered_at: it is the ledger's word
}

// TestExampleFilesAreCurrent makes the files of the example again.
func TestExampleFilesAreCurrent(t *testing.T) {
	l, c := testlog.New(t), newCast(t)
	l.Add(c.authority.Sign(t, l.Policy(c.authority, c.authority)))
	l.Add(c.authority.Sign(t, l.Agent(c.authority, entry.Enrol, c.enroller, entry.RoleEnroller)))
	l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Enrol, c.agent, entry.RoleAgent)))
	l.Add(c.agent.Sign(t, l.Execution(c.agent)))
	var receipts bytes.Buffer
	for _, r := range l.All() {
		receipts.WriteString(encoded(t, r) + "\n")
	}
	for name, want := range map[string]string{"root.json": encoded(t, l.Root), "receipts.ndjson": receipts.String()} {
		path := filepath.Join("testdata", name)
		if *update {
			must(t, os.MkdirAll("testdata", 0o755))
			must(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got, err := os.ReadFile(path)
		must(t, err)
		if string(got) != want {
			t.Errorf("%s is not what is made today; go test -run %s -update", path, t.Name())
		}
	}
}
