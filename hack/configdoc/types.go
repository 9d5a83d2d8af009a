package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"reflect"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

var root = reflect.TypeFor[v1alpha1.PodConfigdConfiguration]()

// comment is the comment of a type or a field, without its markers.
type comment struct {
	text string
	// markers are the lines "+name=value".
	markers map[string]string
}

// number returns the value of a marker, or nil.
func (c comment) number(marker string) *int64 {
	value, err := strconv.ParseInt(c.markers[marker], 10, 64)
	if err != nil {
		return nil
	}
	return &value
}

// typeSet has the comments of the types, and of their fields as Type.Field.
type typeSet struct{ comments map[string]comment }

// readTypes reads the comments in the packages of the types.
func readTypes() (*typeSet, error) {
	all := &typeSet{comments: map[string]comment{}}
	for _, path := range []string{root.PkgPath(), "k8s.io/component-base/logs/api/v1"} {
		dir, err := exec.CommandContext(context.Background(), "go", "list", "-f", "{{.Dir}}", path).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", path, err)
		}
		isSource := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
		parsed, err := parser.ParseDir(token.NewFileSet(), strings.TrimSpace(string(dir)), isSource, parser.ParseComments) //nolint:staticcheck // build constraints do not matter
		if err != nil {
			return nil, err
		}
		for _, pkg := range parsed {
			ast.Inspect(pkg, all.visit)
		}
	}
	return all, nil
}

func (s *typeSet) visit(node ast.Node) bool {
	declared, ok := node.(*ast.GenDecl)
	if !ok {
		return true
	}
	for _, spec := range declared.Specs {
		typ, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		s.comments[typ.Name.Name] = newComment(declared.Doc)
		if object, ok := typ.Type.(*ast.StructType); ok {
			for _, field := range object.Fields.List {
				for _, name := range field.Names {
					s.comments[typ.Name.Name+"."+name.Name] = newComment(field.Doc)
				}
			}
		}
	}
	return true
}

func newComment(group *ast.CommentGroup) comment {
	c := comment{markers: map[string]string{}}
	var text []string
	for line := range strings.Lines(group.Text()) {
		line = strings.TrimSpace(line)
		if marker, ok := strings.CutPrefix(line, "+"); ok {
			name, value, _ := strings.Cut(marker, "=")
			c.markers[name] = value
			continue
		}
		text = append(text, line)
	}
	c.text = strings.TrimSpace(strings.Join(text, " "))
	return c
}

// field is a field of an object in the file.
type field struct {
	name     string
	typ      reflect.Type
	required bool
	comment
}

// fields returns the fields of a type in their order, those of inlined types included.
func (s *typeSet) fields(typ reflect.Type) (fields []field) {
	for of := range typ.Fields() {
		name, options, _ := strings.Cut(of.Tag.Get("json"), ",")
		switch {
		case of.Type == reflect.TypeFor[metaType]():
		case name == "" && of.Anonymous:
			fields = append(fields, s.fields(of.Type)...)
		case name != "" && name != "-":
			fields = append(fields, field{
				name: name, typ: of.Type, required: options == "" && typ.PkgPath() == root.PkgPath(),
				comment: s.comments[typ.Name()+"."+of.Name],
			})
		}
	}
	return fields
}
