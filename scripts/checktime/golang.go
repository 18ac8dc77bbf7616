package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"time"
)

// minWait is the least bound of a wait: a busy machine takes long for what takes a moment elsewhere.
const minWait = time.Minute

// source is a file of a package's tests.
type source struct {
	name string
	text []byte
}

// tests are those in one folder. A name stands for whatever has it: types are not looked at.
type tests struct {
	fset *token.FileSet
	// uses has the functions that use a name.
	uses map[string][]string
	// functions are the names of functions and methods.
	functions map[string]bool
	// durations are the values of names; those of a name with several are unknown.
	durations map[string]time.Duration
	suspects  []suspect
}

// suspect is a place that is refused unless its function is accepted.
type suspect struct {
	finding
	function string
}

// bubble stands for the function whose code runs in a bubble. None has this name.
const bubble = "synctest.Test"

func checkPackage(sources []source) (found []finding, err error) {
	p := &tests{fset: token.NewFileSet(), uses: map[string][]string{}, functions: map[string]bool{}, durations: map[string]time.Duration{}}
	covered := map[string]reasons{}
	var files []*ast.File
	for _, s := range sources {
		file, err := parser.ParseFile(p.fset, s.name, s.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		for _, i := range file.Imports {
			if i.Path.Value == `"time"` && i.Name != nil {
				found = append(found, finding{s.name, p.fset.Position(i.Pos()).Line, "package time has another name here"})
			}
		}
		covered[s.name] = p.reasons(file, s)
		p.declare(file, covered[s.name])
	}
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				p.visit(f.Body, f.Name.Name, clocksOf(f.Body))
			} else if !ok {
				p.visit(d, "", nil)
			}
		}
	}
	accepted := p.accepted()
	for _, s := range p.suspects {
		if !accepted[s.function] && !covered[s.file].cover(s.line) {
			found = append(found, s.finding)
		}
	}
	for _, r := range covered {
		found = append(found, r.faults()...)
	}
	return found, nil
}

func (p *tests) reasons(file *ast.File, s source) reasons {
	r := reasons{s.name, map[int]*reason{}}
	for _, group := range file.Comments {
		for _, c := range group.List {
			at := p.fset.Position(c.Pos())
			before := s.text[at.Offset-at.Column+1 : at.Offset]
			r.add(c.Text, at.Line, len(bytes.TrimSpace(before)) == 0)
		}
	}
	return r
}

// declare learns the names of functions and durations, and lets a reason cover a whole function.
func (p *tests) declare(file *ast.File, covered reasons) {
	value := func(name, value ast.Expr) {
		id, ok := name.(*ast.Ident)
		if d, known := p.duration(value); ok && known {
			if old, again := p.durations[id.Name]; again && old != d {
				d = 0 // unknown
			}
			p.durations[id.Name] = d
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			p.functions[n.Name.Name] = true
			p.spread(n, covered)
		case *ast.FuncLit:
			p.spread(n, covered)
		case *ast.ValueSpec:
			for i, v := range n.Values {
				value(n.Names[i], v)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == len(n.Rhs) {
				for i, v := range n.Rhs {
					value(n.Lhs[i], v)
				}
			}
		}
		return true
	})
}

func (p *tests) spread(function ast.Node, covered reasons) {
	first, last := p.fset.Position(function.Pos()).Line, p.fset.Position(function.End()).Line
	if r := covered.lines[first]; r != nil {
		for line := first; line <= last; line++ {
			covered.lines[line] = r
		}
	}
}

// accepted returns the functions that nothing but bubbles and benchmarks calls.
func (p *tests) accepted() map[string]bool {
	accepted := map[string]bool{bubble: true}
	for name := range p.functions {
		accepted[name] = len(p.uses[name]) > 0 || strings.HasPrefix(name, "Benchmark")
	}
	for changed := true; changed; {
		changed = false
		for name := range p.functions {
			if accepted[name] && slices.ContainsFunc(p.uses[name], func(by string) bool { return !accepted[by] }) {
				accepted[name], changed = false, true
			}
		}
	}
	return accepted
}

// visit looks at the code of a function. clocks are its variables that have the time.
func (p *tests) visit(code ast.Node, function string, clocks map[string]bool) {
	refuse := func(n ast.Node, what string) {
		at := p.fset.Position(n.Pos())
		p.suspects = append(p.suspects, suspect{finding{at.Filename, at.Line, what}, function})
	}
	chosen := map[*ast.ExprStmt]bool{} // by a select
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isOf(n.Fun, "synctest", "Test") {
				for _, arg := range n.Args {
					p.visit(arg, bubble, clocks)
				}
				return false
			}
			if what := p.judge(n, clocks); what != "" {
				refuse(n, what)
			}
		case *ast.SelectorExpr: // called here, or later by another name
			switch {
			case isOf(n, "time", "Sleep"), isOf(n, "time", "Tick"):
				refuse(n, sleeps)
			case isOf(n, "time", "Since"), isOf(n, "time", "Until"):
				refuse(n, readsClock)
			}
		case *ast.BinaryExpr:
			if n.Op.Precedence() == token.EQL.Precedence() && (hasClock(n.X, clocks) || hasClock(n.Y, clocks)) {
				refuse(n, readsClock)
			}
		case *ast.CommClause:
			if wait, ok := n.Comm.(*ast.ExprStmt); ok {
				chosen[wait] = true
			}
		case *ast.ExprStmt:
			if receive, ok := n.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW && !chosen[n] {
				if call, ok := receive.X.(*ast.CallExpr); ok && isOf(call.Fun, "time", "After") {
					refuse(n, sleeps)
				}
			}
		case *ast.Ident:
			p.uses[n.Name] = append(p.uses[n.Name], function)
		}
		return true
	})
}

const (
	sleeps     = "the test sleeps: wait for an event (clocktest.Await), or use testing/synctest"
	readsClock = "the test judges real time: use testing/synctest or an injected clock, or count the work"
)

// judge returns what is wrong with a call.
func (p *tests) judge(call *ast.CallExpr, clocks map[string]bool) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	of, _ := f.X.(*ast.Ident)
	if of == nil || of.Name != "time" && of.Name != "context" && of.Name != "net" {
		of = &ast.Ident{}
	}
	switch name := strings.TrimSuffix(of.Name+"."+f.Sel.Name, "Cause"); name {
	case "time.After", "time.NewTimer", "time.AfterFunc", "context.WithTimeout", "net.DialTimeout":
		return p.short(call)
	case ".SetDeadline", ".SetReadDeadline", ".SetWriteDeadline", "context.WithDeadline":
		if until, ok := call.Args[len(call.Args)-1].(*ast.CallExpr); ok && hasClock(until, clocks) {
			return p.short(until)
		}
	case ".Sub", ".Before", ".After", ".Compare":
		if isClock(f.X, clocks) || slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return isClock(arg, clocks) }) {
			return readsClock
		}
	}
	return ""
}

// short looks at the arguments of a call that are durations.
func (p *tests) short(call *ast.CallExpr) string {
	for _, arg := range call.Args {
		if d, ok := p.duration(arg); ok && 0 < d && d < minWait {
			return shortWait
		}
	}
	return ""
}

// duration returns the value of an expression if it is written out.
func (p *tests) duration(e ast.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return time.Duration(n), err == nil
	case *ast.Ident:
		d, ok := p.durations[e.Name]
		return d, ok
	case *ast.ParenExpr:
		return p.duration(e.X)
	case *ast.SelectorExpr:
		unit := map[string]time.Duration{
			"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
		}[e.Sel.Name]
		return unit, unit > 0 && isOf(e, "time", e.Sel.Name)
	case *ast.BinaryExpr:
		x, knownX := p.duration(e.X)
		y, knownY := p.duration(e.Y)
		switch {
		case e.Op == token.MUL:
			return time.Duration(int64(x) * int64(y)), knownX && knownY // one of them is a number
		case e.Op == token.ADD:
			return x + y, knownX && knownY
		case e.Op == token.QUO && y != 0:
			return x / y, knownX && knownY
		}
	}
	return 0, false
}

// clocksOf returns the names of the variables that have the time.
func clocksOf(code ast.Node) map[string]bool {
	clocks := map[string]bool{}
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if name, ok := n.Lhs[i].(*ast.Ident); ok && isClock(value, nil) {
					clocks[name.Name] = true
				}
			}
		case *ast.ValueSpec:
			for i, value := range n.Values {
				if isClock(value, nil) {
					clocks[n.Names[i].Name] = true
				}
			}
		}
		return true
	})
	return clocks
}

// isClock reports whether an expression is the time, or made of it by its methods.
func isClock(e ast.Expr, clocks map[string]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return clocks[e.Name]
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (isOf(f, "time", "Now") || isClock(f.X, clocks))
	}
	return false
}

func hasClock(e ast.Expr, clocks map[string]bool) (has bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		part, ok := n.(ast.Expr)
		has = has || ok && isClock(part, clocks)
		return !has
	})
	return has
}

// isOf reports whether an expression is a name of a package.
func isOf(e ast.Expr, pkg, name string) bool {
	f, ok := e.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != name {
		return false
	}
	of, ok := f.X.(*ast.Ident)
	return ok && of.Name == pkg
}
