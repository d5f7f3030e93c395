package failures

import (
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/ledger/entry"
)

// ReadTools reads a tools file; none for an empty name.
func ReadTools(a *terminal.Terminal, file string) (importer.Tools, error) {
	if file == "" {
		return nil, nil
	}
	text, err := a.ReadGiven(file, inputMax)
	if err != nil {
		return nil, err
	}
	tools, err := importer.ParseTools(file, text)
	return tools, exit.With(exit.Config, err)
}

// TellUndeclared tells if most tools of imported runs have an effect that nobody declared. Such a
// tool counts as irrevocable, so that little of its failures recovers.
func TellUndeclared(a *terminal.Terminal, w *importer.Writer, file string) {
	used, undeclared := w.Used(), 0
	for _, u := range used {
		if u.Effect == entry.EffectUndeclared {
			undeclared++
		}
	}
	if 2*undeclared <= len(used) {
		return
	}
	remedy := "declare the effects in a file, and pass it as --tools; arl scenario tools writes its beginning"
	if file != "" {
		remedy = "declare them in " + file
	}
	a.Tell("tools whose effect is undeclared: %d of %d: they count as irrevocable; %s", undeclared, len(used), remedy)
}
