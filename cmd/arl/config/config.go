// Package config completes a command line from the environment and from a file.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"recoveryledger/api/worker"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/policyfile"
	"recoveryledger/ledger/entry"
)

// Complete sets the flags that the command line did not set, from the environment or else from the
// YAML file at path. No path is no file, and so is a path where none is. Known are the keys; keyOf
// returns the key of a flag, known or not. The key serve.tls-cert is the variable
// ARL_SERVE_TLS_CERT, and the key tls-cert under serve in the file.
//
// An error names the file or the variable: of a file that cannot be read, of a key or a variable
// that is not known, of a value that the flag does not take.
func Complete(flags *pflag.FlagSet, path string, known []string, keyOf func(flag string) string) error {
	values := koanf.New(".")
	if path != "" {
		if err := values.Load(file.Provider(path), yamlParser{path}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, key := range values.Keys() {
		if !slices.Contains(known, key) {
			return fmt.Errorf("%s: unknown key %s%s", path, key, entry.Suggest(key, known))
		}
	}
	variables, err := environment(known)
	if err != nil {
		return err
	}
	if err := values.Load(variables, nil); err != nil {
		return err
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		key := keyOf(flag.Name)
		if flag.Changed || !slices.Contains(known, key) || !values.Exists(key) {
			return
		}
		if setErr := flags.Set(flag.Name, values.String(key)); setErr != nil {
			source := path + ": key " + key
			if os.Getenv(variable(key)) != "" {
				source = "environment variable " + variable(key)
			}
			err = cmp.Or(err, fmt.Errorf("%s: %w", source, setErr))
		}
	})
	return err
}

// variable returns the environment variable of a key.
func variable(key string) string {
	return "ARL_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// environment reads the variables ARL_*. An empty variable counts as absent. Variables that other
// code reads are ignored: the home, the passphrase, the variables of a worker, and the budget and
// the seed of the project's own tests.
func environment(known []string) (koanf.Provider, error) {
	keyOf := map[string]string{}
	for _, key := range known {
		keyOf[variable(key)] = key
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
