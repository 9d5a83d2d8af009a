package docs

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// minLimit is the shortest limit of a wait in a test. A machine may be slow and busy.
const minLimit = time.Minute

// tested begins a comment at a shorter limit that is what the test is about, or whose end is no failure.
const tested = "// short: "

// limits finds the limits of waits in a file that are too short. It knows the forms in which limits are written here. In
// virtual time, a limit of any length is right.
type limits struct {
	files  *token.FileSet
	marked map[int]bool // lines with a comment that allows them
	found  []token.Pos
}

// inFile returns the lines of the limits that are too short, as "file:line".
func inFile(t *testing.T, path string, source any) (found []string) {
	t.Helper()
	l := &limits{files: token.NewFileSet(), marked: map[int]bool{}}
	file, err := parser.ParseFile(l.files, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, tested) {
				line := l.files.Position(c.Pos()).Line
				l.marked[line], l.marked[line+1] = true, true
			}
		}
	}
	ast.Inspect(file, l.visit)
	for _, pos := range l.found {
		found = append(found, l.files.Position(pos).String())
	}
	return found
}

func (l *limits) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.CallExpr:
		if callee(n) == "synctest.Test" {
			return false
		}
		l.call(n)
	case *ast.SelectStmt:
		for _, clause := range n.Body.List {
			// An empty case looks again, or goes on.
			if c := clause.(*ast.CommClause); c.Comm != nil && len(n.Body.List) > 1 && len(c.Body) > 0 {
				ast.Inspect(c.Comm, l.after)
			}
		}
	case *ast.CompositeLit:
		if name := selector(n.Type); name == "http.Client" || name == "net.Dialer" || name == "tls.Dialer" {
			for _, element := range n.Elts {
				if kv, ok := element.(*ast.KeyValueExpr); ok && isIdent(kv.Key, "Timeout") {
					l.limit(kv.Value)
				}
			}
		}
	}
	return true
}

// call looks at a call that sets a limit.
func (l *limits) call(n *ast.CallExpr) {
	switch name := callee(n); {
	case name == "context.WithTimeout" || name == "context.WithTimeoutCause" || name == "testutil.Within":
		l.limit(n.Args[1])
	case name == "time.AfterFunc" || name == "time.NewTimer":
		l.limit(n.Args[0])
	case strings.HasSuffix(name, "Deadline") && len(n.Args) > 0:
		if add, ok := n.Args[len(n.Args)-1].(*ast.CallExpr); ok && len(add.Args) == 1 {
			l.limit(add.Args[0]) // time.Now().Add(d)
		}
	}
}

// after looks at a case of a select that receives from time.After.
func (l *limits) after(node ast.Node) bool {
	if n, ok := node.(*ast.CallExpr); ok && callee(n) == "time.After" {
		l.limit(n.Args[0])
	}
	return true
}

// limit notes a limit if it is too short.
func (l *limits) limit(x ast.Expr) {
	if d, ok := duration(x); ok && 0 < d && d < minLimit && !l.marked[l.files.Position(x.Pos()).Line] {
		l.found = append(l.found, x.Pos())
	}
}

// duration is the value of an expression of numbers and units of package time.
func duration(x ast.Expr) (time.Duration, bool) {
	v := value(x)
	if v == nil || constant.ToInt(v).Kind() != constant.Int {
		return 0, false
	}
	d, ok := constant.Int64Val(constant.ToInt(v))
	return time.Duration(d), ok
}

var units = map[string]time.Duration{
	"time.Nanosecond": time.Nanosecond, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
	"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
}

// value is the value of a constant expression, or nil. It follows a name to its constant in the same file.
func value(x ast.Expr) constant.Value {
	switch x := x.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(x.Value, x.Kind, 0)
	case *ast.ParenExpr:
		return value(x.X)
	case *ast.SelectorExpr:
		if d, ok := units[selector(x)]; ok {
			return constant.MakeInt64(int64(d))
		}
	case *ast.Ident:
		if x.Obj != nil && x.Obj.Kind == ast.Con {
			if spec, ok := x.Obj.Decl.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					if name.Name == x.Name {
						return value(spec.Values[i])
					}
				}
			}
		}
	case *ast.BinaryExpr:
		left, right := value(x.X), value(x.Y)
		if left != nil && right != nil && (x.Op == token.MUL || x.Op == token.ADD || x.Op == token.SUB) {
			return constant.BinaryOp(left, x.Op, right)
		}
	}
	return nil
}

func callee(n *ast.CallExpr) string { return selector(n.Fun) }

// selector is "a.b" for that expression, and ".b" if a is no name.
func selector(x ast.Expr) string {
	s, ok := x.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if p, ok := s.X.(*ast.Ident); ok {
		return p.Name + "." + s.Sel.Name
	}
	return "." + s.Sel.Name
}

func isIdent(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// A test with a limit of seconds fails on a machine that is slow and busy.
func TestNoTestHasAShortLimit(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join(root, "test")) {
			for _, place := range inFile(t, path, nil) {
				t.Errorf("%s: a limit below %v: use testutil.Patience, or say behind it why a short one is right: %swhy", place, minLimit, tested)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestShortLimits(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		want int
	}{
		"a context":               {`context.WithTimeout(ctx, 2*time.Second)`, 1},
		"a context of a minute":   {`context.WithTimeout(ctx, time.Minute)`, 0},
		"a context of patience":   {`context.WithTimeout(ctx, testutil.Patience)`, 0},
		"in virtual time":         {`synctest.Test(t, func(t *testing.T) { context.WithTimeout(ctx, time.Second) })`, 0},
		"in a select":             {`select { case <-c: case <-time.After(time.Second): t.Fatal() }`, 1},
		"a poll":                  {`select { case <-c: case <-time.After(time.Second): }`, 0},
		"a wait":                  {`<-time.After(time.Second)`, 0},
		"the only case":           {`select { case <-time.After(time.Second): f() }`, 0},
		"a deadline":              {`conn.SetReadDeadline(time.Now().Add(10 * time.Second))`, 1},
		"a deadline that is over": {`conn.SetDeadline(time.Now().Add(-time.Second))`, 0},
		"a client":                {`_ = &http.Client{Timeout: 30 * time.Second}`, 1},
		"a timer":                 {`time.AfterFunc(time.Second, cancel)`, 1},
		"a constant":              {"const limit = 5 * time.Second\ntime.NewTimer(limit)", 1},
		"allowed":                 {`time.NewTimer(time.Second) // short: the test is about it`, 0},
		"allowed above":           {"// short: the test is about it\ntime.NewTimer(time.Second)", 0},
		"a reason is missing":     {`time.NewTimer(time.Second) // short`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inFile(t, "x.go", "package x\nfunc f() {\n"+test.code+"\n}"); len(got) != test.want {
				t.Errorf("found %q, want %d", got, test.want)
			}
		})
	}
}
