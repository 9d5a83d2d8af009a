// Command configdoc writes the JSON schema and the reference page of the configuration file,
// from the types in api/config/v1alpha1.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . ../..

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: configdoc ROOT")
		os.Exit(2)
	}
	files, err := generate()
	if err == nil {
		for name, data := range files {
			if err = os.WriteFile(filepath.Join(os.Args[1], name), data, 0o644); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "configdoc:", err)
		os.Exit(1)
	}
}

// generate returns the files that are generated, by their path in the repository.
func generate() (map[string][]byte, error) {
	types, err := readTypes()
	if err != nil {
		return nil, err
	}
	schema, err := types.schema()
	if err != nil {
		return nil, err
	}
	reference, err := types.reference()
	if err != nil {
		return nil, err
	}
	source, err := types.readOptions().source()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"api/config/v1alpha1/schema.json": schema, "api/config/v1alpha1/zz_generated.options.go": source, "docs/reference/config.md": reference,
	}, nil
}
