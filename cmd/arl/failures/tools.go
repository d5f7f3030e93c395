package failures

import (
	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/ledger/entry"
)

// Shape are the flags that say what tools do, and which results are dependencies.
type Shape struct {
	Tools, Edges string
	Inputs       bool
}

// Register adds the flags: with the one for inputs, which a log does not take, if they are of use.
func (o *Shape) Register(flags *pflag.FlagSet, inputs bool) {
	if inputs {
		flags.BoolVar(&o.Inputs, "with-inputs", false, "give calls of tools their inputs, redacted, so that arl recover --live can make them")
	}
	flags.StringVar(&o.Tools, "tools", "", "tools file: the effects of tools, which their names do not say (arl scenario tools)")
	manual.NameValue(flags, "tools", "FILE")
	flags.StringVar(&o.Edges, "edges", string(importer.Conversation), "what a step depends on: conversation, all that its agent had read, or dataflow, what it is seen to use")
	manual.NameValue(flags, "edges", "KIND")
}

// Read reads the tools file, if there is one.
func (o *Shape) Read(a *terminal.Terminal) (importer.Shape, error) {
	edges, known := importer.ParseEdges(o.Edges)
	shape := importer.Shape{Edges: edges, Inputs: o.Inputs}
	if !known {
		return shape, exit.Usagef("--edges: %q is neither %s nor %s", o.Edges, importer.Conversation, importer.Dataflow)
	}
	if o.Tools == "" {
		return shape, nil
	}
	text, err := a.ReadGiven(o.Tools, inputMax)
	if err != nil {
		return shape, err
	}
	shape.Tools, err = importer.ParseTools(o.Tools, text)
	return shape, exit.With(exit.Config, err)
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
