// Package refusals reads, from the sources, what the server says to callers that it refuses. Tests compare that with the words of the clients.
package refusals

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Text is a part of a text of an error.
type Text struct {
	// File is the source that has it, relative to the repository.
	File string `json:"file"`
	// Text is the literal, with its verbs.
	Text string `json:"text"`
}

// dirs have the sources of errors that travel. A session's own errors are for those who write clients.
var dirs = []string{"contexts", "exec", "fserr", "fsservice", "git", "panels", "repos", "review", "server", "sites"}

// makers are the functions whose arguments are texts of errors.
var makers = []string{"refused", "refuseID", "refuse", "conflicting", "Invalid"}

// Texts returns the literals of all details and hints below the root of the repository.
func Texts(root string) (out []Text, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(filepath.Base(path), "session") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			for _, text := range textsOf(file) {
				out = append(out, Text{filepath.ToSlash(name), text})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// textsOf returns the literals of a source's details and hints.
func textsOf(file *ast.File) (out []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		for _, value := range said(n) {
			ast.Inspect(value, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value) // the parser has accepted it
					out = append(out, text)
				}
				return true
			})
		}
		return true
	})
	return out
}

// said returns the expressions of a node that are texts of an error.
func said(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Hint" || key.Name == "Detail") {
			return []ast.Expr{n.Value}
		}
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if slices.Contains(makers, name) {
			return n.Args
		}
	}
	return nil
}

// Names returns the names of RPCs and of fields that no sentence has by chance.
func Names() (names []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage(ctxfsv1.File_ctxfs_v1_fs_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				// ListHandles has no command, but 'ctxfs call'.
				if name := string(f.Services().Get(i).Methods().Get(j).Name()); strings.ToLower(name[1:]) != name[1:] && name != "ListHandles" {
					names = append(names, name)
				}
			}
		}
		for i := range f.Messages().Len() {
			for j := range f.Messages().Get(i).Fields().Len() {
				// No client of ours sends a client_instance.
				if name := string(f.Messages().Get(i).Fields().Get(j).Name()); strings.Contains(name, "_") && name != "client_instance" {
					names = append(names, name)
				}
			}
		}
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}
