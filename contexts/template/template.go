// Package template owns context-template.yml: prepared contexts, made of git
// repositories at refs. It reads them through package git.
//
// # The file
//
//	extends: templates/base          # one parent, or none
//	deps:
//	  /tools:                        # where it is put, from the context's root
//	    repo: packages/tools         # which repository
//	    ref: v1.2                    # a branch, a tag or a commit; HEAD when it is not said
//
// extends names another template of the workspace, from the workspace's root or,
// when it begins with "./" or "../", from the folder of the file that says it. A
// folder means the context-template.yml in it. Templates are read from the working
// tree, as they are now. A chain has at most MaxChain templates and no cycle.
//
// repo is a path in the workspace. Where nothing of that name is there, it is a
// path under the configured base URL, if there is one; a URL is allowed when it
// lies under that base. Only file, http, https and ssh are spoken.
//
// ref is looked for as a branch, then as a tag, then as a commit, in full or
// abbreviated to 4 digits or more, if only one matches. A name that is
// both a branch and a tag of different commits is refused; refs/heads/x and
// refs/tags/x say which. Of a remote repository, only advertised commits may be abbreviated.
//
// Other keys, other types, keys given twice, anchors, aliases and tags are errors
// that name file, line and column.
//
// # The chain
//
// All templates of a chain add to one set of paths. The same path with the same
// repository and commit may be said several times; with another it is a
// *ConflictError, and so are paths that contain one another. Nothing overrides.
//
// # The hash
//
// It is the SHA-256 of the canonical form of what the chain resolves to; see
// Resolved.Canonical. A branch that moves gives another hash, and what was built for the old one stays.
//
// # Git
//
// Package git reads the repositories. It uses none of their configuration, attributes,
// hooks, replacements or submodules, and runs no program that they name. Content is written
// byte for byte as it is stored, without filters or line end conversion.
package template

import (
	"regexp"

	"github.com/ctxfs/ctxfs/internal/strictyaml"
)

// FileName is the name of a template's file.
const FileName = "context-template.yml"

// Bounds of templates.
const (
	// maxFile is the size of a template's file, in bytes.
	maxFile = 256 << 10
	// MaxChain is how many templates may extend one another.
	MaxChain = 16
	// MaxDeps is how many repositories a chain may name.
	MaxDeps = 1000
)

// Position is a place in a template.
type Position = strictyaml.Position

// Template is one parsed file.
type Template struct {
	// Name is the file's path, relative to the workspace.
	Name string
	// Extends is the parent as it is written, "" when there is none, and ExtendsAt where.
	Extends   string
	ExtendsAt Position
	// Deps are in the order of the file.
	Deps []Declaration
}

// Declaration is one dep as a template has it, checked but not resolved.
type Declaration struct {
	// Path is absolute and clean: "/tools".
	Path string
	// Repo is as written; Ref is "HEAD" when the file has none.
	Repo, Ref string
	At        Position
}

// hashPattern is a hash, in full or as the 12 digits in a context's ID.
var hashPattern = regexp.MustCompile(`^[0-9a-f]{12}$|^[0-9a-f]{64}$`)
