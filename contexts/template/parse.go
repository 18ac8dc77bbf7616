package template

import (
	"go.yaml.in/yaml/v3"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/strictyaml"
)

// parse reads a template. name is the file's path relative to the workspace, for
// positions. Every error is EINVAL (EFBIG beyond maxFile) and names the place.
func parse(name string, data []byte) (*Template, error) {
	p := parser{File: strictyaml.File{Name: name, One: "a template", Many: "templates"}, t: &Template{Name: name}}
	start := Position{Template: name, Line: 1, Column: 1}
	if len(data) > maxFile {
		return nil, start.Because(fserr.EFBIG, nil, "move some of it into a template that it extends", "a template has at most %d bytes", maxFile)
	}
	doc, err := p.Document(data)
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
type parser struct {
	strictyaml.File
	t *Template
}

func (p parser) top(n *yaml.Node) error {
	return p.Mapping(n, "a template", "extends, deps", map[string]strictyaml.Field{
		"extends": func(_, v *yaml.Node) (err error) {
			p.t.ExtendsAt = p.At(v)
			p.t.Extends, err = p.Text(v, "extends", "the path of another template")
			return err
		},
		"deps": func(_, v *yaml.Node) error { return p.deps(v) },
	})
}

func (p parser) deps(n *yaml.Node) error {
	where := map[string]Position{}
	return p.Each(n, "deps", func(k, v *yaml.Node) error {
		if len(p.t.Deps) == MaxDeps {
			return p.At(k).Because(fserr.EFBIG, nil, "", "a template has at most %d deps", MaxDeps)
		}
		clean, err := cleanDepPath(k.Value)
		if err != nil {
			return p.At(k).Refuse("", "bad path %.200q: %s", k.Value, err)
		}
		if first, twice := where[clean]; twice {
			return p.At(k).Refuse("", "path %s is already at line %d", clean, first.Line)
		}
		where[clean] = p.At(k)
		return p.dep(k, v, clean)
	})
}

func (p parser) dep(k, v *yaml.Node, clean string) error {
	d := Declaration{Path: clean, Ref: "HEAD", At: p.At(k)}
	err := p.Mapping(v, "a dep", "repo, ref", map[string]strictyaml.Field{
		"repo": func(_, v *yaml.Node) (err error) {
			if d.Repo, err = p.Text(v, "repo", "a path or a URL"); err != nil {
				return err
			}
			return p.reason(v, "repo", d.Repo, checkRepo(d.Repo))
		},
		"ref": func(_, v *yaml.Node) (err error) {
			if d.Ref, err = p.Text(v, "ref", "a branch, a tag or a commit"); err != nil {
				return err
			}
			return p.reason(v, "ref", d.Ref, git.CheckRef(d.Ref))
		},
	})
	if err == nil && d.Repo == "" {
		err = p.At(k).Refuse("add repo: PATH", "dep %s names no repository", clean)
	}
	p.t.Deps = append(p.t.Deps, d)
	return err
}

// reason makes what a check has found an error at n.
func (p parser) reason(n *yaml.Node, what, value string, err error) error {
	if err == nil {
		return nil
	}
	return p.At(n).Refuse("", "bad %s %.200q: %s", what, value, err)
}
