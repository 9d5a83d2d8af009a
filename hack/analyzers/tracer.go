package main

import (
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A tracer follows a value back to where the function has it from. It sees each value once.
type tracer struct {
	seen []ssa.Value
	// only is the parameter that counts, whether it is of a pod or not; nil if all do that are of a pod.
	only *ssa.Parameter
}

// shared reports whether the value points to a part of a pod that the function did not make. With pod, what was followed so
// far is known to be a part of a pod.
func (t *tracer) shared(v ssa.Value, pod bool) bool {
	if slices.Contains(t.seen, v) {
		return false
	}
	t.seen = append(t.seen, v)
	pod = pod || isPod(v.Type())
	switch v := v.(type) {
	case *ssa.Phi:
		return slices.ContainsFunc(v.Edges, func(edge ssa.Value) bool { return t.shared(edge, pod) })
	case *ssa.UnOp: // a load, or a receive
		if variable, path := place(v.X); variable != nil {
			return t.stored(variable, path, pod)
		}
		return t.shared(v.X, pod)
	case *ssa.Call:
		given := arguments(&v.Call)
		switch name := nameOf(&v.Call); {
		case name == "append" && isFull(given[0]):
			return false
		case name == "append", strings.HasPrefix(name, "Get") && !pod: // a getter of a pod gives a part of it
			return t.shared(given[0], pod)
		case strings.HasPrefix(name[strings.LastIndex(name, ".")+1:], "DeepCopy"):
			return false
		}
		return pod && t.only == nil
	case *ssa.Parameter:
		return v == t.only || pod && t.only == nil
	case *ssa.Lookup, *ssa.Next, *ssa.Select:
		return pod && t.only == nil
	}
	whole := around(v)
	return whole != nil && t.shared(whole, pod) // nil: a literal, new, make, a variable of the package
}

// around returns what the value is a part or another form of, or nil.
func around(v ssa.Value) ssa.Value {
	switch v := v.(type) {
	case *ssa.FieldAddr:
		return v.X
	case *ssa.IndexAddr:
		return v.X
	case *ssa.Slice:
		return v.X
	case *ssa.Field:
		return v.X
	case *ssa.Index:
		return v.X
	case *ssa.ChangeType:
		return v.X
	case *ssa.MakeInterface:
		return v.X
	case *ssa.ChangeInterface:
		return v.X
	case *ssa.TypeAssert:
		return v.X
	case *ssa.Extract:
		return v.Tuple
	case *ssa.FreeVar:
		return bound(v)
	}
	return nil
}

// stored reports whether each value that was stored at the place in the variable, or in the smallest part of it around the
// place, is shared.
func (t *tracer) stored(variable *ssa.Alloc, path string, pod bool) bool {
	var values []ssa.Value
	longest := ""
	for _, store := range stores(variable) {
		_, at := place(store.Addr)
		if !strings.HasPrefix(path, at) || len(at) < len(longest) {
			continue
		}
		if len(at) > len(longest) {
			values, longest = nil, at
		}
		values = append(values, store.Val)
	}
	return len(values) > 0 && !slices.ContainsFunc(values, func(v ssa.Value) bool { return !t.shared(v, pod) })
}

// place returns the variable of the function, or of one around it, that the address is in, and the fields that lead there.
func place(address ssa.Value) (variable *ssa.Alloc, path string) {
	switch a := address.(type) {
	case *ssa.Alloc:
		return a, "/"
	case *ssa.FreeVar:
		return place(bound(a))
	case *ssa.FieldAddr:
		variable, path = place(a.X)
		return variable, path + string(rune('0'+a.Field)) + "/"
	}
	return nil, ""
}

// bound returns what the function around the literal has given to the variable.
func bound(v *ssa.FreeVar) ssa.Value {
	literal := v.Parent()
	for _, made := range *literal.Referrers() {
		if closure, ok := made.(*ssa.MakeClosure); ok {
			return closure.Bindings[slices.Index(literal.FreeVars, v)]
		}
	}
	return v
}

// stores returns the stores to a variable and its fields, also those in function literals.
func stores(address ssa.Value) []*ssa.Store {
	var all []*ssa.Store
	for _, use := range *address.Referrers() {
		switch use := use.(type) {
		case *ssa.Store:
			if use.Addr == address {
				all = append(all, use)
			}
		case *ssa.FieldAddr:
			all = append(all, stores(use)...)
		case *ssa.MakeClosure:
			literal, ok := use.Fn.(*ssa.Function)
			for i, binding := range use.Bindings {
				if ok && binding == address {
					all = append(all, stores(literal.FreeVars[i])...)
				}
			}
		}
	}
	return all
}
