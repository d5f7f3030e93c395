package main

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/cmd/arl/config"
	"recoveryledger/cmd/arl/exit"
)

// configure completes the flags of cmd that the command line did not set, from
// the environment or else from ARL_HOME/config.yaml:
//
//	profile: production        ARL_PROFILE
//	serve:
//	  listen: 0.0.0.0:8087     ARL_SERVE_LISTEN
//
// Keys are the flags of every command or of many commands, and the flags of serve. configure
// refuses any other key.
func (a *app) configure(cmd *cobra.Command) error {
	if err := a.checkOutput(); err != nil {
		return err
	}
	path := ""
	if home, err := a.homeDir(); err == nil { // else no file; a command that needs the directory reports the error
		path = filepath.Join(home, "config.yaml")
	}
	err := config.Complete(cmd.Flags(), path, configKeys(cmd.Root()), func(flag string) string { return configKey(cmd, flag) })
	return a.badConfig(cmp.Or(err, a.checkOutput()))
}

// badConfig returns an error of the configuration, not of the command line.
func (a *app) badConfig(err error) error {
	a.reached = a.reached || err != nil
	return exit.With(exit.Config, err)
}

// configKey returns the key of a command's flag.
func configKey(cmd *cobra.Command, flag string) string {
	if cmd.Name() == "serve" && cmd.Root().PersistentFlags().Lookup(flag) == nil {
		return "serve." + flag
	}
	return flag
}

// configKeys returns the keys of a configuration file. A flag for one start is no setting: to
// accept a database or a clock, or to encrypt new keys.
func configKeys(root *cobra.Command) []string {
	keys := []string{"output", "profile", "url", "root", "tls-ca", "tls-cert", "tls-key"}
	for _, cmd := range root.Commands() {
		if cmd.Name() != "serve" {
			continue
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name != "help" && flag.Name != "passphrase" && flag.Name != "join" && !strings.HasPrefix(flag.Name, "accept-") {
				keys = append(keys, configKey(cmd, flag.Name))
			}
		})
	}
	return keys
}
