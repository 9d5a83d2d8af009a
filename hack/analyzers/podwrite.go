package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
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

// mutators are the functions that write to what their first argument holds, and into those that write to what the second one holds. An
// entry that ends with * is for all names that begin so. Methods have no package: their first argument is the receiver.
var (
	mutators = []string{
		"append", "delete", "clear", "copy", "Set*", "Unmarshal*", "Reset",
		"maps.Copy", "maps.Insert", "maps.DeleteFunc",
		"slices.Sort*", "slices.Reverse", "slices.Delete*", "slices.Compact*", "slices.Insert", "slices.Replace",
		"sort.Slice*", "sort.Sort", "sort.Stable", "sort.Strings",
		"k8s.io/apimachinery/pkg/apis/meta/v1.SetMetaDataAnnotation", "k8s.io/apimachinery/pkg/apis/meta/v1.SetMetaDataLabel",
	}
	into = []string{"DeepCopyInto", "encoding/json.Unmarshal", "sigs.k8s.io/yaml.Unmarshal*"}
)

func runPodwrite(pass *analysis.Pass) (any, error) {
	report := reporter(pass)
	all := functions(pass)
	writes := writersOf(all)
	for _, function := range all {
		for target, pos := range writes.targets(function) {
			if new(tracer).shared(target, false) {
				report(pos, "write to a pod that other parts may share: copy the struct and what you change in it")
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

// writers has the parameters that functions of the package write to, by index. Pods are not in it: such a write is reported in the
// function itself.
type writers map[*ssa.Function][]int

func writersOf(functions []*ssa.Function) writers {
	w := writers{}
	for more := true; more; {
		more = false
		for _, function := range functions {
			for i, parameter := range function.Params {
				if isPod(parameter.Type()) || slices.Contains(w[function], i) {
					continue
				}
				if w.writes(function, parameter) {
					w[function], more = append(w[function], i), true
				}
			}
		}
	}
	return w
}

// writes reports whether the function, or a literal in it, writes to the parameter.
func (w writers) writes(function *ssa.Function, parameter *ssa.Parameter) bool {
	for target := range w.targets(function) {
		if (&tracer{only: parameter}).shared(target, false) {
			return true
		}
	}
	return slices.ContainsFunc(function.AnonFuncs, func(literal *ssa.Function) bool { return w.writes(literal, parameter) })
}

// targets yields the addresses, slices and maps that the function writes to, and where.
func (w writers) targets(function *ssa.Function) iter.Seq2[ssa.Value, token.Pos] {
	return func(yield func(ssa.Value, token.Pos) bool) {
		for _, block := range function.Blocks {
			for _, instruction := range block.Instrs {
				for _, target := range w.written(instruction) {
					if !yield(target, instruction.Pos()) {
						return
					}
				}
			}
		}
	}
}

// written returns the addresses, slices and maps that the instruction writes to.
func (w writers) written(instruction ssa.Instruction) (all []ssa.Value) {
	switch instruction := instruction.(type) {
	case *ssa.Store:
		if _, variable := instruction.Addr.(*ssa.Alloc); !variable {
			all = append(all, instruction.Addr)
		}
	case *ssa.MapUpdate:
		all = append(all, instruction.Map)
	case ssa.CallInstruction:
		call := instruction.Common()
		name, given := nameOf(call), arguments(call)
		is := func(m string) bool {
			prefix, many := strings.CutSuffix(m, "*")
			return name == m || many && strings.HasPrefix(name, prefix)
		}
		if len(given) > 0 && slices.ContainsFunc(mutators, is) && (name != "append" || !isFull(given[0])) {
			all = append(all, given[0])
		}
		if len(given) > 1 && slices.ContainsFunc(into, is) {
			all = append(all, given[1])
		}
		for _, i := range w[calleeOf(call)] {
			all = append(all, given[i])
		}
	}
	return all
}

// arguments returns the arguments of a call, with the receiver of a method first.
func arguments(call *ssa.CallCommon) []ssa.Value {
	if call.IsInvoke() {
		return slices.Concat([]ssa.Value{call.Value}, call.Args)
	}
	return call.Args
}

// isFull reports whether the slice is s[:n:n], which append copies.
func isFull(v ssa.Value) bool {
	slice, ok := v.(*ssa.Slice)
	return ok && slice.Max != nil
}

// calleeOf returns the function that is called, without its type arguments; nil if it is a value or a method of an interface.
func calleeOf(call *ssa.CallCommon) *ssa.Function {
	callee := call.StaticCallee()
	if callee != nil && callee.Origin() != nil {
		callee = callee.Origin()
	}
	return callee
}

// nameOf returns the name of what is called, with the path of its package if it is a function that is not a method.
func nameOf(call *ssa.CallCommon) string {
	if call.IsInvoke() {
		return call.Method.Name()
	}
	if builtin, ok := call.Value.(*ssa.Builtin); ok {
		return builtin.Name()
	}
	callee := calleeOf(call)
	switch {
	case callee == nil:
		return ""
	case callee.Signature.Recv() == nil && callee.Object() != nil && callee.Object().Pkg() != nil:
		return callee.Object().Pkg().Path() + "." + callee.Name()
	}
	return callee.Name()
}

// isPod reports whether the type is v1.Pod or a pointer to it.
func isPod(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Pod" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == podPackage
}
