package node

import "fmt"

// Started is what arl serve prints when the ledger takes entries.
type Started struct {
	URL          string   `json:"url"`
	Origin       string   `json:"origin"`
	VerifierKeys []string `json:"verifier_keys"`
	Genesis      string   `json:"genesis"`
	Data         string   `json:"data"`

	Begins      bool   `json:"-"` // whether this start made the ledger
	Certificate string `json:"-"` // path of the server's; empty: plain HTTP
	AsksClients bool   `json:"-"` // whether clients must present certificates
}

// Text returns what people read. program is the name of arl in the commands. The first start shows
// how a first entry is submitted, and later starts do not.
func (s *Started) Text(program string) string {
	text := fmt.Sprintf("URL           %s\norigin        %s\nverifier key  %s\ngenesis       %s\n", s.URL, s.Origin, s.VerifierKeys[0], s.Genesis)
	shown := ""
	if s.AsksClients {
		shown = " --tls-cert CLIENT.pem --tls-key CLIENT.key"
	}
	if s.Begins {
		text += fmt.Sprintf(`
Submit a first entry from another terminal:

  %[1]s key generate --out agent.key
  %[1]s agent enrol --principal my-agent --key agent.key --domain my-team%[2]s
  %[1]s entry submit --kind execution --principal my-agent --key agent.key --payload - --out receipt.json%[2]s <<'JSON'
  {"wid": "first-workflow", "exec": "step-1", "parents": [], "effect": "none", "progress": "confirmed"}
JSON
  %[1]s verify receipt.json
`, program, shown)
	}
	if s.Certificate != "" {
		text += fmt.Sprintf("\nThe profile here trusts %s; elsewhere pass --tls-ca with the CA of that certificate.\n", s.Certificate)
	}
	return text
}
