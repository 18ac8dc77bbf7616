package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestHintsOfTheServerBecomeCommands reads what the server's sources say to callers. The commands must not repeat the names of RPCs
// and of their fields.
func TestHintsOfTheServerBecomeCommands(t *testing.T) {
	t.Parallel()
	words := apiWords()
	seen := 0
	for _, dir := range []string{"contexts", "fserr", "fsservice", "git", "panels", "server/services"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "session") {
				return err // a session's own errors are for those that write clients
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				var said []ast.Expr
				switch n := n.(type) {
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Hint" || key.Name == "Detail") {
						said = []ast.Expr{n.Value}
					}
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "refused" || f.Name == "refuseID") {
						said = n.Args
					}
				}
				seen += len(said)
				for _, value := range said {
					checkWords(t, words, path, value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 50 {
		t.Errorf("only %d hints were found", seen)
	}
}

func checkWords(t *testing.T, words *regexp.Regexp, path string, value ast.Expr) {
	ast.Inspect(value, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		if found := words.FindString(inCommands(text)); found != "" {
			t.Errorf("%s: %q names %s: add it to commandWords", path, text, found)
		}
		return true
	})
}

// apiWords matches names of RPCs and fields that no sentence has by chance.
func apiWords() *regexp.Regexp {
	var words []string
	protoregistry.GlobalFiles.RangeFilesByPackage("ctxfs.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				if name := string(f.Services().Get(i).Methods().Get(j).Name()); strings.ToLower(name[1:]) != name[1:] && name != "ListHandles" {
					words = append(words, name)
				}
			}
		}
		for i := range f.Messages().Len() {
			for j := range f.Messages().Get(i).Fields().Len() {
				// The commands send no client_instance; ListHandles has no command, but 'ctxfs call'.
				if name := string(f.Messages().Get(i).Fields().Get(j).Name()); strings.Contains(name, "_") && name != "client_instance" {
					words = append(words, name)
				}
			}
		}
		return true
	})
	return regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)\b`)
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	names := []string{"context", "panel", "snapshot", "ls"}
	for word, want := range map[string]string{"contxt": "context", "Panle": "panel", "snapshots": "snapshot", "zebra": "", "l": "ls"} {
		if got := didYouMean(word, names); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
