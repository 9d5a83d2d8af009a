package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// The page of the stream has every field, operation, mode and parameter.
func TestTheStreamIsDescribed(t *testing.T) {
	page := testutil.Pages(t)["docs/reference/stream.md"]
	lines, operations, ok := strings.Cut(page, "\n## Operations\n")
	if !ok {
		t.Fatal("the page has no operations")
	}
	for field := range reflect.TypeFor[v1alpha1.Update]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && !strings.Contains(lines, "`"+name+"`") {
			t.Errorf("the field %s is not described", name)
		}
	}
	source, err := os.ReadFile("../../api/stream/v1alpha1/op.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\s+(?:Op|Mode)\w+ +(?:Op|Mode) += "(.*)"$`).FindAllStringSubmatch(string(source), -1)
	if len(constants) < 13 {
		t.Errorf("only %d operations and modes were found", len(constants))
	}
	for _, m := range constants {
		if !strings.Contains(operations, "`"+m[1]+"`") {
			t.Errorf("%s is not described", m[1])
		}
	}
}

// The page of the HTTP paths has every path that the server registers.
func TestThePathsAreDescribed(t *testing.T) {
	page := testutil.Pages(t)["docs/reference/http.md"]
	var files []string
	for _, dir := range []string{"", "rest/"} {
		in, err := filepath.Glob("../../pkg/server/" + dir + "*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, in...)
	}
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:HandleFunc\(|posts\[)"(/[\w/]+)["/]`).FindAllStringSubmatch(string(source), -1) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			if found++; !strings.Contains(page, m[1]) {
				t.Errorf("%s: %s is not described", filepath.Base(file), m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d paths were found", found)
	}
}
