// analyzers checks two rules of CONTRIBUTING.md that no other linter knows: podwrite and ctxsend. make lint runs it.
//
// Neither rule needs the code of other packages. So only the packages that are named are read from their source: two seconds
// instead of minutes.
package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"
)

func main() { multichecker.Main(podwrite, ctxsend) }

// reporter returns a function that reports at positions, but not on lines that end with "//nolint:NAME // reason", and not in functions
// whose first line ends so.
func reporter(pass *analysis.Pass) func(pos token.Pos, message string) {
	type line struct {
		file string
		line int
	}
	at := func(pos token.Pos) line { p := pass.Fset.Position(pos); return line{p.Filename, p.Line} }
	silent := map[line]bool{}
	var functions []*ast.FuncDecl
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				directive, reason, _ := strings.Cut(comment.Text, " // ")
				names, is := strings.CutPrefix(directive, "//nolint:")
				if is && reason != "" && slices.Contains(strings.Split(names, ","), pass.Analyzer.Name) {
					silent[at(comment.Pos())] = true
				}
			}
		}
		for _, decl := range file.Decls {
			if decl, ok := decl.(*ast.FuncDecl); ok && silent[at(decl.Pos())] {
				functions = append(functions, decl)
			}
		}
	}
	return func(pos token.Pos, message string) {
		in := func(f *ast.FuncDecl) bool { return f.Pos() <= pos && pos < f.End() }
		if !silent[at(pos)] && !slices.ContainsFunc(functions, in) {
			pass.Reportf(pos, "%s", message)
		}
	}
}

// enclosing calls visit for each node below the file, with the nodes around it, the outermost first.
func enclosing(file *ast.File, visit func(node ast.Node, around []ast.Node)) {
	var around []ast.Node
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			around = around[:len(around)-1]
			return true
		}
		visit(node, around)
		around = append(around, node)
		return true
	})
}
