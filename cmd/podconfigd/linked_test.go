//go:build linux

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// The linker removes methods that nothing calls only if no function looks up a method by a name
// that is not constant. The binary has the names of its functions.
//
// docs/adr/0012-a-binary-without-unused-methods.md says how to find what calls such a function.
func TestUnusedMethodsAreNotLinked(t *testing.T) {
	t.Parallel()
	binary, err := os.ReadFile(testutil.MustProgram(t, ".", "./cmd/podconfigd"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"main.newRootCommand": true, "k8s.io/api/core/v1.(*Pod).Marshal": true,
		"text/template.(*state).evalField": false, "k8s.io/api/core/v1.Pod.SwaggerDoc": false, "net/http.(*Client).PostForm": false,
	} {
		t.Run(name, func(t *testing.T) {
			if got := bytes.Contains(binary, []byte(name)); got != want {
				t.Errorf("%s is linked: %v, want %v", name, got, want)
			}
		})
	}
}
