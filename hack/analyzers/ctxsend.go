package main

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// ctxsend reports a send on a channel that may block after the end of the context. A send is accepted
//   - in a select that has a default case, or receives from a channel of struct{}, as that of a context;
//   - if the same function makes the channel with a constant capacity, and has no more sends on it, none in a loop or in a function
//     literal that may be called often.
var ctxsend = &analysis.Analyzer{
	Name: "ctxsend",
	Doc:  "report sends on channels that don't select on a context",
	Run:  runCtxsend,
}

func runCtxsend(pass *analysis.Pass) (any, error) {
	report := reporter(pass)
	for _, file := range pass.Files {
		rooms := roomsOf(pass.TypesInfo, file)
		enclosing(file, func(node ast.Node, around []ast.Node) {
			send, ok := node.(*ast.SendStmt)
			if ok && !canEnd(pass.TypesInfo, send, around) && !rooms[objectOf(pass.TypesInfo, send.Chan)].has() {
				report(send.Pos(), "send on a channel without a select on ctx.Done()")
			}
		})
	}
	return nil, nil
}

// canEnd reports whether the send is a case of a select that also ends without a receiver.
func canEnd(info *types.Info, send *ast.SendStmt, around []ast.Node) bool {
	// The nodes around a case are the select, its block and the clause.
	if len(around) < 3 {
		return false
	}
	clause, ok := around[len(around)-1].(*ast.CommClause)
	selects, of := around[len(around)-3].(*ast.SelectStmt)
	return ok && of && clause.Comm == send && slices.ContainsFunc(selects.Body.List, func(other ast.Stmt) bool {
		clause, ok := other.(*ast.CommClause)
		return ok && (clause.Comm == nil || receivesNothing(info, clause.Comm))
	})
}

// receivesNothing reports whether the statement is "<-ch", and ch is a channel of struct{}.
func receivesNothing(info *types.Info, comm ast.Stmt) bool {
	statement, ok := comm.(*ast.ExprStmt)
	if !ok {
		return false
	}
	receive, ok := ast.Unparen(statement.X).(*ast.UnaryExpr)
	if !ok {
		return false
	}
	channel, ok := info.TypeOf(receive.X).Underlying().(*types.Chan)
	if !ok {
		return false
	}
	value, ok := channel.Elem().Underlying().(*types.Struct)
	return ok && value.NumFields() == 0
}

// A room is the capacity of a channel that is a local variable, and the number of sends on it.
type room struct {
	capacity, sends int64
	made            []ast.Node // the nodes around the call of make
	often           bool       // a send is in a loop or a function literal that does not make the channel
}

func (r *room) has() bool { return r != nil && !r.often && r.sends <= r.capacity }

// roomsOf returns the rooms of the channels that "ch := make(chan T, 1)" makes.
func roomsOf(info *types.Info, file *ast.File) map[types.Object]*room {
	rooms := map[types.Object]*room{}
	enclosing(file, func(node ast.Node, around []ast.Node) {
		switch node := node.(type) {
		case *ast.AssignStmt:
			for i, value := range node.Rhs {
				if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 2 && len(node.Lhs) == len(node.Rhs) {
					_, channel := info.TypeOf(call).Underlying().(*types.Chan)
					if capacity := info.Types[call.Args[1]].Value; channel && capacity != nil {
						n, _ := constant.Int64Val(capacity)
						rooms[objectOf(info, node.Lhs[i])] = &room{capacity: n, made: slices.Clone(around)}
					}
				}
			}
		case *ast.SendStmt:
			if r := rooms[objectOf(info, node.Chan)]; r != nil {
				r.sends++
				for i, n := range around {
					r.often = r.often || !slices.Contains(r.made, n) && isOften(n, around[:i])
				}
			}
		}
	})
	delete(rooms, nil)
	return rooms
}

// objectOf returns the variable that the expression is, or nil.
func objectOf(info *types.Info, expr ast.Expr) types.Object {
	if ident, ok := ast.Unparen(expr).(*ast.Ident); ok {
		return info.ObjectOf(ident)
	}
	return nil
}

// isOften reports whether what is in the node may run more often than the node: it is a loop, or a function literal that is neither
// called where it is nor given to a method Go.
func isOften(node ast.Node, around []ast.Node) bool {
	switch node := node.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return true
	case *ast.FuncLit:
		call, ok := around[len(around)-1].(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		return call.Fun != node && (!ok || method.Sel.Name != "Go")
	}
	return false
}
