// Command streamdoc writes the reference page of the JSON types of the socket, from the
// comments of api/stream/v1alpha1.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

//go:generate go run . ../..

const (
	source       = "api/stream/v1alpha1"
	target       = "docs/reference/json.md"
	introduction = `# Reference of the JSON types

<!-- Generated from api/stream/v1alpha1 by "make generate". Do not edit. -->

[http.md](http.md) says which path has which type. In Go, these types are package
[api/stream/v1alpha1](../../api/stream/v1alpha1). A client ignores fields that it does not know.
`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: streamdoc ROOT")
		os.Exit(2)
	}
	page, err := generate(os.Args[1])
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], target), page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "streamdoc:", err)
		os.Exit(1)
	}
}

// generate returns the page.
func generate(root string) ([]byte, error) {
	p := &page{known: make(map[string]bool)}
	declarations, err := declarationsIn(filepath.Join(root, source))
	if err != nil {
		return nil, err
	}
	for _, d := range declarations {
		for _, spec := range d.Specs {
			if typ, ok := spec.(*ast.TypeSpec); ok && typ.Name.IsExported() {
				p.known[typ.Name.Name] = true
			}
		}
	}
	p.out.WriteString(introduction)
	for _, d := range declarations {
		p.declaration(d, declarations)
	}
	return p.out.Bytes(), nil
}

// declarationsIn returns the declarations of types and constants of a package, in the order of
// its files.
func declarationsIn(dir string) (all []*ast.GenDecl, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && (d.Tok == token.TYPE || d.Tok == token.CONST) {
				all = append(all, d)
			}
		}
	}
	return all, nil
}

// page is the reference page.
type page struct {
	known map[string]bool
	out   bytes.Buffer
}

// text is a comment in one line.
func text(comments ...*ast.CommentGroup) string {
	for _, c := range comments {
		if c != nil {
			return strings.ReplaceAll(strings.Join(strings.Fields(c.Text()), " "), "|", "\\|")
		}
	}
	return ""
}

// declaration writes the types of a declaration.
func (p *page) declaration(d *ast.GenDecl, all []*ast.GenDecl) {
	for _, spec := range d.Specs {
		typ, ok := spec.(*ast.TypeSpec)
		if !ok || !typ.Name.IsExported() {
			continue
		}
		switch kind := typ.Type.(type) {
		case *ast.StructType:
			fmt.Fprintf(&p.out, "\n## %s\n\n%s\n\n| field | type | |\n|---|---|---|\n", typ.Name.Name, text(typ.Doc, d.Doc))
			p.fields(kind)
		case *ast.Ident:
			fmt.Fprintf(&p.out, "\n## %s\n\n%s\n\n| value | |\n|---|---|\n", typ.Name.Name, text(typ.Doc, d.Doc))
			p.values(typ.Name.Name, all)
		}
	}
}

func (p *page) fields(typ *ast.StructType) {
	for _, field := range typ.Fields.List {
		if field.Tag == nil {
			if embedded, ok := field.Type.(*ast.Ident); ok {
				fmt.Fprintf(&p.out, "| | %s | the fields of this type |\n", p.typeOf(embedded))
			}
			continue
		}
		name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
		if name == "-" {
			continue
		}
		typ := p.typeOf(field.Type)
		if strings.Contains(options, "inline") || name == "" {
			fmt.Fprintf(&p.out, "| | %s | the fields of this type |\n", typ)
			continue
		}
		if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
			typ += ", optional"
		}
		fmt.Fprintf(&p.out, "| `%s` | %s | %s |\n", name, typ, text(field.Doc, field.Comment))
	}
}

// typeOf is a type as it is in JSON.
func (p *page) typeOf(expr ast.Expr) string {
	switch typ := expr.(type) {
	case *ast.StarExpr:
		return p.typeOf(typ.X)
	case *ast.ArrayType:
		return "list of " + p.typeOf(typ.Elt)
	case *ast.MapType:
		return "map of " + p.typeOf(typ.Key) + " to " + p.typeOf(typ.Value)
	case *ast.SelectorExpr:
		if typ.Sel.Name == "Time" {
			return "time"
		}
		return fmt.Sprintf("`%s.%s`", typ.X, typ.Sel)
	case *ast.Ident:
		switch {
		case p.known[typ.Name]:
			return fmt.Sprintf("[%s](#%s)", typ.Name, strings.ToLower(typ.Name))
		case strings.HasPrefix(typ.Name, "int") || strings.HasPrefix(typ.Name, "uint"):
			return "integer"
		case strings.HasPrefix(typ.Name, "float"):
			return "number"
		case typ.Name == "bool":
			return "boolean"
		}
		return typ.Name
	}
	return fmt.Sprintf("%T", expr)
}

// values writes the constants of a type.
func (p *page) values(of string, all []*ast.GenDecl) {
	for _, d := range all {
		for _, spec := range d.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || value.Type == nil || len(value.Values) != 1 {
				continue
			}
			name, isName := value.Type.(*ast.Ident)
			literal, isLiteral := value.Values[0].(*ast.BasicLit)
			if isName && isLiteral && name.Name == of {
				fmt.Fprintf(&p.out, "| `%s` | %s |\n", strings.Trim(literal.Value, `"`), text(value.Doc, value.Comment, d.Doc))
			}
		}
	}
}
