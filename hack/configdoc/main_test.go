package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join("..", "..", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not up to date: run make generate (%v)", name, err)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "api", "config", "v1alpha1", "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile("schema.json")
}

// matches returns the error of the schema for a file.
func matches(t *testing.T, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	data, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

// load returns the error of the daemon for a file.
func load(t *testing.T, data []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := configfile.Flags{Config: daemon.Config{InCluster: true}, Changed: func(string) bool { return false }}
	loaded, err := configfile.Load(configfile.Files{Config: path}, &flags)
	if err != nil {
		return err
	}
	return loaded.Check()
}

const head = "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\n"

// The schema accepts what the daemon accepts.
func TestSchemaAccepts(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run")
	schema := compiled(t)
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "podconfigd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{
		head, string(example),
		head + "staticPodPath: null\naccess: []\nlogging: null\nauthentication: {x509: null}\n",
		head + "fileCheckFrequency: 1h2m3.5s\nhttpCheckFrequency: 100ms\nsyncFrequency: .5h\nstateMaxAge: 90m\n",
		head + "removalBrake: 5\n", head + "removalBrake: '5'\n", head + "removalBrake: 50%\n", head + "removalBrake: ''\n",
		head + "socketMode: '0'\n", head + "socketMode: '777'\n", head + "socketMode: '0640'\n",
		head + "staticPodURL: http://a\nstaticPodURLHeader: {A: [b, c], D: null}\n",
		head + "logging: {format: json, verbosity: 5, flushFrequency: 5000000000}\n",
		head + "logging: {flushFrequency: 5s, vmodule: [{filePattern: a, verbosity: 3}]}\n",
		head + "access: [{uids: [0, 4294967295], view: none}, {view: full, labelSelector: 'a in (b), !c'}]\n",
	} {
		if err := load(t, []byte(data)); err != nil {
			t.Errorf("the daemon refuses this: %v\n%s", err, data)
		}
		if err := matches(t, schema, []byte(data)); err != nil {
			t.Errorf("the schema refuses this: %v\n%s", err, data)
		}
	}
}

// Both refuse what is no configuration.
func TestSchemaRefuses(t *testing.T) {
	schema := compiled(t)
	for _, data := range []string{
		"{}", "kind: PodConfigdConfiguration\n", strings.Replace(head, "v1alpha1", "v1", 1), strings.Replace(head, "PodC", "C", 1),
		head + "staticPodPth: /a\n", head + "StaticPodPath: /a\n", head + "authentication: {x509: {clientCaFile: a}}\n",
		head + "staticPodPath: 5\n", head + "staticPodPath: [a]\n", head + "listen: unix:///a\n", head + "logging: []\n",
		head + "fileCheckFrequency: 20\n", head + "fileCheckFrequency: '20'\n", head + "fileCheckFrequency: -1s\n", head + "fileCheckFrequency: soon\n",
		head + "socketMode: 0660\n", head + "socketMode: '0999'\n", head + "socketMode: '01000'\n",
		head + "removalBrake: 0\n", head + "removalBrake: 1000001\n", head + "removalBrake: 100%\n", head + "removalBrake: half\n",
		head + "runtimeStatus: 'true'\n", head + "staticPodURL: http://a\nstaticPodURLHeader: {A: b}\n",
		head + "access: [{users: [a]}]\n", head + "access: [{view: all}]\n", head + "access: [{view: full, uids: [-1]}]\n",
		head + "access: null\n", head + "access: [{view: full, uids: []}]\n", head + "access: [{view: full, users: null}]\n", head + "access: [{view: full, labelSelector: ''}]\n",
		head + "access: [{view: full, uids: [4294967296]}]\n", head + "access: [{view: full, uids: ['0']}]\n",
		head + "fileSources: [{path: /a}]\n", head + "fileSources: [{name: a}]\n", head + "httpSources: [{name: a}]\n",
		head + "logging: {verbosity: -1}\n", head + "logging: {verbosty: 1}\n",
	} {
		if err := load(t, []byte(data)); err == nil {
			t.Errorf("the daemon accepts this:\n%s", data)
		}
		if err := matches(t, schema, []byte(data)); err == nil {
			t.Errorf("the schema accepts this:\n%s", data)
		}
	}
}

// The limits of numbers in the schema are those of the daemon.
func TestLimitsOfTheSchema(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run")
	schema := compiled(t)
	var properties struct {
		Properties map[string]struct{ Minimum, Maximum *int64 }
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "api", "config", "v1alpha1", "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &properties); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, name := range slices.Sorted(maps.Keys(properties.Properties)) {
		limits := properties.Properties[name]
		if limits.Minimum == nil {
			continue
		}
		tried++
		for number, good := range map[int64]bool{
			*limits.Minimum: true, *limits.Maximum: true, *limits.Minimum - 1: false, *limits.Maximum + 1: false,
		} {
			t.Run(fmt.Sprintf("%s=%d", name, number), func(t *testing.T) {
				data := fmt.Appendf(nil, "%s%s: %d\n", head, name, number)
				if err := load(t, data); (err == nil) != good {
					t.Errorf("the daemon: %v", err)
				}
				if err := matches(t, schema, data); (err == nil) != good {
					t.Errorf("the schema: %v", err)
				}
			})
		}
	}
	if tried < 6 {
		t.Errorf("only %d numbers were found", tried)
	}
}

// Each field has a comment, which the schema and the reference page show. Each has a flag, or
// the reference page says that it has none.
func TestEachFieldIsDocumented(t *testing.T) {
	types, err := readTypes()
	if err != nil {
		t.Fatal(err)
	}
	withoutFlag := []string{"access"}
	for _, field := range types.fields(root) {
		if field.text == "" || !strings.HasPrefix(field.text, field.name+" ") {
			t.Errorf("%s: the comment is %q", field.name, field.text)
		}
		if object(field.typ) != nil && field.typ.Kind().String() == "struct" {
			continue // its fields have flags
		}
		if flag := v1alpha1.Options.Flag(field.name); (flag == "") != slices.Contains(withoutFlag, field.name) {
			t.Errorf("%s has the flag %q", field.name, flag)
		}
	}
}
