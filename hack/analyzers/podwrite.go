package main

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// podwrite reports writes into a pod, its slices and its maps, unless the function made what it writes to:
//   - all of a pod that is a literal, new, or the result of DeepCopy;
//   - the fields of a copy of the struct (copied := *pod), and what the function gave to these fields (copied.Labels = maps.Clone(…)).
//
// Every other pod may be one that a source has sent: parameters, what is received, elements of sets and results of calls.
var podwrite = &analysis.Analyzer{
	Name: "podwrite",
	Doc:  "report writes into pods that other parts share",
	Run:  runPodwrite,
}

const podPackage = "k8s.io/api/core/v1"

// mutators are the functions that write to what their first argument holds. An entry that ends with * is for all names that
// begin so. Methods have no package: their first argument is the receiver.
var mutators = []string{
	"delete", "clear", "copy", "Set*", "Unmarshal*", "Reset",
	"maps.Copy", "maps.Insert", "maps.DeleteFunc",
	"slices.Sort*", "slices.Reverse", "slices.Delete*", "slices.Compact*", "slices.Insert", "slices.Replace",
	"sort.Slice*", "sort.Sort", "sort.Stable", "sort.Strings",
	"k8s.io/apimachinery/pkg/apis/meta/v1.SetMetaDataAnnotation", "k8s.io/apimachinery/pkg/apis/meta/v1.SetMetaDataLabel",
}

func runPodwrite(pass *analysis.Pass) (any, error) {
	report := reporter(pass)
	for _, function := range functions(pass) {
		for _, block := range function.Blocks {
			for _, instruction := range block.Instrs {
				target := written(instruction)
				if target != nil && new(tracer).shared(target, false) {
					report(instruction.Pos(), "write to a pod that other parts may share: copy the struct and what you change in it")
				}
			}
		}
	}
	return nil, nil
}

// functions returns the functions of the package, also the literals. Package buildssa of x/tools does the same, but
// reads all imported packages too, to find the calls that do not return.
func functions(pass *analysis.Pass) []*ssa.Function {
	program := ssa.NewProgram(pass.Fset, 0)
	for _, imported := range pass.Pkg.Imports() {
		program.CreatePackage(imported, nil, nil, true)
	}
	built := program.CreatePackage(pass.Pkg, pass.Files, pass.TypesInfo, false)
	built.Build()
	all := []*ssa.Function{built.Func("init")} // the literals of variables
	for _, file := range pass.Files {
		for _, decl := range file.Decls {
			decl, ok := decl.(*ast.FuncDecl)
			if !ok || decl.Name.Name == "_" {
				continue
			}
			if function, ok := pass.TypesInfo.Defs[decl.Name].(*types.Func); ok {
				all = append(all, program.FuncValue(function))
			}
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].AnonFuncs...)
	}
	return all
}

// written returns the address, the slice or the map that the instruction writes to, or nil.
func written(instruction ssa.Instruction) ssa.Value {
	switch instruction := instruction.(type) {
	case *ssa.Store:
		if _, ok := instruction.Addr.(*ssa.Alloc); ok {
			return nil // a variable
		}
		return instruction.Addr
	case *ssa.MapUpdate:
		return instruction.Map
	case ssa.CallInstruction:
		call := instruction.Common()
		if len(call.Args) > 0 && slices.ContainsFunc(mutators, func(m string) bool {
			prefix, many := strings.CutSuffix(m, "*")
			return nameOf(call) == m || many && strings.HasPrefix(nameOf(call), prefix)
		}) {
			return call.Args[0]
		}
	}
	return nil
}

// nameOf returns the name of what is called, with the path of its package if it is a function that is not a method.
func nameOf(call *ssa.CallCommon) string {
	switch callee := call.Value.(type) {
	case *ssa.Builtin:
		return callee.Name()
	case *ssa.Function:
		if callee.Origin() != nil {
			callee = callee.Origin()
		}
		if callee.Signature.Recv() == nil && callee.Object() != nil && callee.Object().Pkg() != nil {
			return callee.Object().Pkg().Path() + "." + callee.Name()
		}
		return callee.Name()
	}
	return ""
}

// isPod reports whether the type is v1.Pod or a pointer to it.
func isPod(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Pod" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == podPackage
}
