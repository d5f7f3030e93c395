package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"recoveryledger/cmd/arl/operations"
	"recoveryledger/cmd/arl/terminal"

	"github.com/spf13/cobra"
)

// versionInfo is the output of arl version.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show which build this is",
		Example: "  arl version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := thisBuild()
			return a.PrintObject(v, terminal.Field{"version", v.Version},
				terminal.Field{"revision", cmp.Or(v.Revision, "unknown: built without make, and without version control")}, terminal.Field{"go", v.Go}, terminal.Field{"platform", v.Platform})
		},
	}
}

func (a *app) metricsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "metrics",
		Short:   "List the metrics of a ledger",
		Example: "  arl metrics --output json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return operations.PrintMetrics(&a.Terminal) },
	}
}

// thisBuild returns the version of this build.
func thisBuild() versionInfo {
	return versionInfo{Version: version, Revision: cmp.Or(revision, stampedRevision()), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// stampedRevision returns the revision that the go command wrote into the program. It is empty if
// the go command was told to write none, or saw no repository.
func stampedRevision() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}
