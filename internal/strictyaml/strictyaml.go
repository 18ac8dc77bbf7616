// Package strictyaml reads small YAML files that people write. It names the place of every mistake, and refuses what makes one place of a
// file depend on another: aliases, anchors and tags. It also refuses keys that are unknown or given twice.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ctxfs/ctxfs/fserr"
)

// File is a file that is being read.
type File struct {
	// Name is its path, relative to the workspace.
	Name string
	// One and Many name such a file in messages: "a template", "templates".
	One, Many string
}

// Position is a place in a file. The path is relative to the workspace, so it may travel.
type Position struct {
	// Template is the path of the file.
	Template string `json:"template"`
	// Line and Column count from 1; Column is 0 when it is not known.
	Line   int `json:"line"`
	Column int `json:"column,omitempty"`
}

// String is "templates/base/context-template.yml:4:3".
func (p Position) String() string {
	if p.Column == 0 {
		return fmt.Sprintf("%s:%d", p.Template, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.Template, p.Line, p.Column)
}

// Refuse returns the error (EINVAL) that something at p is not allowed.
func (p Position) Refuse(hint, format string, args ...any) error {
	return p.Because(fserr.EINVAL, nil, hint, format, args...)
}

// Because returns an error about what stands at p, with its cause, which never travels.
func (p Position) Because(code fserr.Code, cause error, hint, format string, args ...any) error {
	return &fserr.Error{Code: code, Detail: p.String() + ": " + fmt.Sprintf(format, args...), Hint: hint, Err: cause}
}

// At returns the place of a node.
func (f File) At(n *yaml.Node) Position {
	return Position{Template: f.Name, Line: n.Line, Column: n.Column}
}

// Document returns the content of the only document, nil when the file is empty.
func (f File) Document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // an empty file says nothing
	}
	if err != nil {
		return nil, f.syntax(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, f.At(&second).Refuse("", "%s is one YAML document, this is a second one", f.One)
	case !errors.Is(err, io.EOF):
		return nil, f.syntax(err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return nil, nil //nolint:nilnil // as above
	}
	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax reports text that is not YAML. The library knows only the line.
func (f File) syntax(err error) error {
	text, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = n
		}
	}
	return Position{Template: f.Name, Line: line}.Because(fserr.EINVAL, err, "", "this is not YAML: %.200s", text)
}

// Field reads the value of one key.
type Field func(key, value *yaml.Node) error

// Mapping reads a mapping with known keys.
func (f File) Mapping(n *yaml.Node, what, known string, fields map[string]Field) error {
	return f.Each(n, what, func(k, v *yaml.Node) error {
		read, ok := fields[k.Value]
		if !ok {
			return f.At(k).Refuse("the keys of "+what+" are "+known, "unknown key %.200q", k.Value)
		}
		return read(k, v)
	})
}

// Each calls fn for the keys and values of a mapping.
func (f File) Each(n *yaml.Node, what string, fn Field) error {
	if err := f.plain(n, what); err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode {
		return f.At(n).Refuse("", "%s must be a mapping, not %s", what, Describe(n))
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if _, err := f.Text(k, "a key", "text"); err != nil {
			return err
		}
		if first, twice := seen[k.Value]; twice {
			return f.At(k).Refuse("", "key %.200q is already at line %d", k.Value, first)
		}
		seen[k.Value] = k.Line
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// Text returns a scalar that is text, and neither empty nor a number.
func (f File) Text(n *yaml.Node, what, means string) (string, error) {
	if err := f.plain(n, what); err != nil {
		return "", err
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			hint = `put it in quotes: "` + strings.ReplaceAll(n.Value, `"`, ``) + `"`
		}
		return "", f.At(n).Refuse(hint, "%s must be %s, not %s", what, means, Describe(n))
	}
	if n.Value == "" {
		return "", f.At(n).Refuse("", "%s is empty; it must be %s", what, means)
	}
	return n.Value, nil
}

// plain refuses what makes one place of a file depend on another, and tags.
func (f File) plain(n *yaml.Node, what string) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return f.At(n).Refuse("write it out", "%s is an alias (*); %s have none", what, f.Many)
	case n.Anchor != "":
		return f.At(n).Refuse("write it out", "%s has an anchor (&); %s have none", what, f.Many)
	case n.Style&yaml.TaggedStyle != 0:
		return f.At(n).Refuse("", "%s has a tag (%.40s); %s have none", what, n.Tag, f.Many)
	}
	return nil
}

// Describe names the type of a node for a message.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
	default:
		return "this"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	case "!!merge":
		return "a merge key"
	}
	return "text"
}
