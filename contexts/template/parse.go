package template

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// parse reads a template. name is the file's path relative to the workspace, for
// positions. Every error is EINVAL (EFBIG beyond maxFile) and names the place.
func parse(name string, data []byte) (*Template, error) {
	p := parser{t: &Template{Name: name}}
	start := Position{Template: name, Line: 1, Column: 1}
	if len(data) > maxFile {
		return nil, start.because(fserr.EFBIG, nil, "move some of it into a template that it extends", "a template has at most %d bytes", maxFile)
	}
	doc, err := p.document(data)
	if err != nil || doc == nil {
		return p.t, err
	}
	if err := p.top(doc); err != nil {
		return nil, err
	}
	return p.t, nil
}

// parser makes a Template of YAML nodes: decoding into a struct would lose
// the positions of values, and would follow aliases.
type parser struct{ t *Template }

func (p parser) at(n *yaml.Node) Position {
	return Position{Template: p.t.Name, Line: n.Line, Column: n.Column}
}

// document returns the content of the only document, nil when the file is empty.
func (p parser) document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // an empty file is an empty template
	}
	if err != nil {
		return nil, p.syntax(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, p.at(&second).refuse("", "a template is one YAML document, this is a second one")
	case !errors.Is(err, io.EOF):
		return nil, p.syntax(err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return nil, nil //nolint:nilnil // as above
	}
	return doc.Content[0], nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax reports text that is not YAML. The library knows only the line.
func (p parser) syntax(err error) error {
	text, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = n
		}
	}
	return Position{Template: p.t.Name, Line: line}.because(fserr.EINVAL, err, "", "this is not YAML: %.200s", text)
}

// field reads the value of one key.
type field func(key, value *yaml.Node) error

func (p parser) top(n *yaml.Node) error {
	return p.mapping(n, "a template", "extends, deps", map[string]field{
		"extends": func(_, v *yaml.Node) (err error) {
			p.t.ExtendsAt = p.at(v)
			p.t.Extends, err = p.text(v, "extends", "the path of another template")
			return err
		},
		"deps": func(_, v *yaml.Node) error { return p.deps(v) },
	})
}

func (p parser) deps(n *yaml.Node) error {
	where := map[string]Position{}
	return p.each(n, "deps", func(k, v *yaml.Node) error {
		if len(p.t.Deps) == MaxDeps {
			return p.at(k).because(fserr.EFBIG, nil, "", "a template has at most %d deps", MaxDeps)
		}
		clean, err := cleanDepPath(k.Value)
		if err != nil {
			return p.at(k).refuse("", "bad path %.200q: %s", k.Value, err)
		}
		if first, twice := where[clean]; twice {
			return p.at(k).refuse("", "path %s is already at line %d", clean, first.Line)
		}
		where[clean] = p.at(k)
		return p.dep(k, v, clean)
	})
}

func (p parser) dep(k, v *yaml.Node, clean string) error {
	d := Declaration{Path: clean, Ref: "HEAD", At: p.at(k)}
	err := p.mapping(v, "a dep", "repo, ref", map[string]field{
		"repo": func(_, v *yaml.Node) (err error) {
			if d.Repo, err = p.text(v, "repo", "a path or a URL"); err != nil {
				return err
			}
			return p.reason(v, "repo", d.Repo, checkRepo(d.Repo))
		},
		"ref": func(_, v *yaml.Node) (err error) {
			if d.Ref, err = p.text(v, "ref", "a branch, a tag or a commit"); err != nil {
				return err
			}
			return p.reason(v, "ref", d.Ref, git.CheckRef(d.Ref))
		},
	})
	if err == nil && d.Repo == "" {
		err = p.at(k).refuse("add repo: PATH", "dep %s names no repository", clean)
	}
	p.t.Deps = append(p.t.Deps, d)
	return err
}

// reason makes what a check has found an error at n.
func (p parser) reason(n *yaml.Node, what, value string, err error) error {
	if err == nil {
		return nil
	}
	return p.at(n).refuse("", "bad %s %.200q: %s", what, value, err)
}

// mapping reads a mapping with known keys.
func (p parser) mapping(n *yaml.Node, what, known string, fields map[string]field) error {
	return p.each(n, what, func(k, v *yaml.Node) error {
		read, ok := fields[k.Value]
		if !ok {
			return p.at(k).refuse("the keys of "+what+" are "+known, "unknown key %.200q", k.Value)
		}
		return read(k, v)
	})
}

// each calls fn for the keys and values of a mapping.
func (p parser) each(n *yaml.Node, what string, fn field) error {
	if err := p.plain(n, what); err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode {
		return p.at(n).refuse("", "%s must be a mapping, not %s", what, describe(n))
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if _, err := p.text(k, "a key", "text"); err != nil {
			return err
		}
		if first, twice := seen[k.Value]; twice {
			return p.at(k).refuse("", "key %.200q is already at line %d", k.Value, first)
		}
		seen[k.Value] = k.Line
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// text returns a scalar that is text, and neither empty nor a number.
func (p parser) text(n *yaml.Node, what, means string) (string, error) {
	if err := p.plain(n, what); err != nil {
		return "", err
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			hint = `put it in quotes: "` + strings.ReplaceAll(n.Value, `"`, ``) + `"`
		}
		return "", p.at(n).refuse(hint, "%s must be %s, not %s", what, means, describe(n))
	}
	if n.Value == "" {
		return "", p.at(n).refuse("", "%s is empty; it must be %s", what, means)
	}
	return n.Value, nil
}

// plain refuses what makes one place of a file depend on another, and tags.
func (p parser) plain(n *yaml.Node, what string) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return p.at(n).refuse("write it out", "%s is an alias (*); templates have none", what)
	case n.Anchor != "":
		return p.at(n).refuse("write it out", "%s has an anchor (&); templates have none", what)
	case n.Style&yaml.TaggedStyle != 0:
		return p.at(n).refuse("", "%s has a tag (%.40s); templates have none", what, n.Tag)
	}
	return nil
}

func describe(n *yaml.Node) string {
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
