package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/api/worker"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/policyfile"
	"recoveryledger/ledger/entry"
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
	known := configKeys(cmd.Root())
	values := koanf.New(".")
	path := ""
	if home, err := a.homeDir(); err == nil { // else no file; a command that needs the directory reports the error
		path = filepath.Join(home, "config.yaml")
		if err := values.Load(file.Provider(path), yamlParser{path}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a.badConfig(err)
		}
	}
	for _, key := range values.Keys() {
		if !slices.Contains(known, key) {
			return a.badConfig(fmt.Errorf("%s: unknown key %s%s", path, key, entry.Suggest(key, known)))
		}
	}
	fromEnvironment, err := environment(known)
	if err != nil {
		return a.badConfig(err)
	}
	if err := values.Load(fromEnvironment, nil); err != nil {
		return a.badConfig(err)
	}
	err = nil
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		key := configKey(cmd, flag.Name)
		if flag.Changed || !slices.Contains(known, key) || !values.Exists(key) {
			return
		}
		if setErr := cmd.Flags().Set(flag.Name, values.String(key)); setErr != nil {
			err = cmp.Or(err, fmt.Errorf("configuration key %s: %w", key, setErr))
		}
	})
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

// environment reads the variables ARL_*. An empty variable counts as absent. Variables that other
// code reads are ignored: the home, the passphrase, the variables of a worker, and the budget and
// the seed of the project's own tests.
func environment(known []string) (koanf.Provider, error) {
	keyOf := map[string]string{}
	for _, key := range known {
		keyOf["ARL_"+strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))] = key
	}
	var unknown error
	provider := env.Provider(".", env.Opt{Prefix: "ARL_", TransformFunc: func(name, value string) (string, any) {
		if value == "" || name == "ARL_HOME" || name == exit.PassphraseVariable || name == "ARL_CHAOS" || name == "ARL_SEED" || slices.Contains(worker.Variables(), name) {
			return "", nil
		}
		if keyOf[name] == "" {
			unknown = fmt.Errorf("environment variable %s is no setting%s", name, entry.Suggest(name, slices.Sorted(maps.Keys(keyOf))))
		}
		return keyOf[name], value
	}})
	_, err := provider.Read()
	return provider, cmp.Or(unknown, err)
}

// yamlParser reads a configuration file.
type yamlParser struct{ path string }

// Unmarshal implements [koanf.Parser].
func (p yamlParser) Unmarshal(data []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, policyfile.YAMLError(p.path, err, "write each key once, as KEY: VALUE; indent the keys of arl serve under serve:")
	}
	return values, nil
}

// Marshal implements [koanf.Parser].
func (yamlParser) Marshal(values map[string]any) ([]byte, error) { return yaml.Marshal(values) }
