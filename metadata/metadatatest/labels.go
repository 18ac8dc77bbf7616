package metadatatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/ctxfs/ctxfs/metadata"
)

// labelled is a kind of record with labels.
type labelled struct {
	kind      string
	create    func(id string, set map[string]string) error
	get       func(id string) (map[string]string, error)
	update    func(id string) error
	setLabels func(ctx context.Context, id string, change metadata.LabelChange) (map[string]string, error)
}

func (s suite) labelled() []labelled {
	contexts, panels := s.store.Contexts(), s.store.Panels()
	return []labelled{
		{
			"context", func(id string, set map[string]string) error {
				return contexts.Create(s.Context(), metadata.Context{ID: id, Labels: set})
			},
			func(id string) (map[string]string, error) {
				c, err := contexts.Get(s.Context(), id)
				return c.Labels, err
			},
			func(id string) error {
				return contexts.Update(s.Context(), metadata.Context{ID: id, Generation: 7, Labels: map[string]string{"not": "kept"}})
			},
			contexts.SetLabels,
		},
		{
			"panel", func(id string, set map[string]string) error {
				return panels.Bind(s.Context(), metadata.Panel{ID: id, ContextID: "c", Labels: set})
			},
			func(id string) (map[string]string, error) {
				p, err := panels.Get(s.Context(), id)
				return p.Labels, err
			},
			func(id string) error {
				return panels.Update(s.Context(), metadata.Panel{ID: id, ContextID: "c", ReadOnly: true, Labels: map[string]string{"not": "kept"}})
			},
			panels.SetLabels,
		},
	}
}

// becomes is a change to a set of labels.
func becomes(set map[string]string) metadata.LabelChange {
	return func(map[string]string) (map[string]string, error) { return set, nil }
}

// has demands the labels of a record.
func (s suite) has(r labelled, id string, want map[string]string) {
	s.Helper()
	got, err := r.get(id)
	s.must(err)
	s.equal(got, want)
}

func labelRoundTrip(s suite) {
	odd := map[string]string{"owner": "ada", "empty": "", "a/b.c_d-e": `"quoted" \ {} é ☃ 'single'`}
	for _, r := range s.labelled() {
		given := maps.Clone(odd)
		s.must(r.create("a", given))
		given["later"] = "not stored"
		s.has(r, "a", odd)
		s.must(r.create("none", map[string]string{}))
		s.has(r, "none", nil)

		next := map[string]string{"task": "1"}
		got, err := r.setLabels(s.Context(), "a", func(old map[string]string) (map[string]string, error) {
			s.equal(old, odd)
			return next, nil
		})
		s.must(err)
		s.equal(got, next)
		s.has(r, "a", next)
		s.has(r, "none", nil)
		_, err = r.setLabels(s.Context(), "a", becomes(map[string]string{}))
		s.must(err)
		s.has(r, "a", nil)
	}
	list, err := s.store.Contexts().List(s.Context())
	s.must(err)
	s.equal(list, []metadata.Context{{ID: "a"}, {ID: "none"}})
}

func labelUpdate(s suite) {
	want := map[string]string{"owner": "ada"}
	for _, r := range s.labelled() {
		s.must(r.create("a", want))
		s.must(r.update("a"))
		s.has(r, "a", want)
	}
}

func labelRefused(s suite) {
	want, refused := map[string]string{"owner": "ada"}, errors.New("refused")
	for _, r := range s.labelled() {
		s.must(r.create("a", want))
		_, err := r.setLabels(s.Context(), "a", func(map[string]string) (map[string]string, error) { return map[string]string{"b": "1"}, refused })
		s.refused(err, refused)
		s.has(r, "a", want)
		for _, id := range []string{"absent", "A", ""} {
			_, err = r.setLabels(s.Context(), id, becomes(want))
			s.refused(err, metadata.ErrNotFound)
		}
	}
}

func labelRace(s suite) {
	const callers = 10
	for _, r := range s.labelled() {
		s.must(r.create("a", nil))
		want := map[string]string{}
		var all sync.WaitGroup
		results := make([]error, callers)
		for i := range callers {
			key := fmt.Sprint("k", i)
			want[key] = "v"
			all.Go(func() {
				_, results[i] = r.setLabels(s.Context(), "a", func(old map[string]string) (map[string]string, error) {
					set := maps.Clone(old)
					if set == nil {
						set = map[string]string{}
					}
					set[key] = "v"
					return set, nil
				})
			})
		}
		all.Wait()
		s.must(errors.Join(results...))
		s.has(r, "a", want)
	}
}
