package labels_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

type set = map[string]string

func TestApplyChangesACopy(t *testing.T) {
	t.Parallel()
	old := set{"owner": "ada", "task": "1"}
	got, err := labels.Apply(old, set{"task": "2", "a/b.c_d-e": "naïve ☃, 中"}, []string{"owner", "absent"})
	if err != nil || !maps.Equal(got, set{"task": "2", "a/b.c_d-e": "naïve ☃, 中"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if !maps.Equal(old, set{"owner": "ada", "task": "1"}) {
		t.Errorf("the old labels changed to %v", old)
	}
	if got, err := labels.Apply(set{"a": ""}, nil, []string{"a"}); got != nil || err != nil {
		t.Errorf("without labels: %v, %v, want nil", got, err)
	}
}

func TestBadLabelsAreRefused(t *testing.T) {
	t.Parallel()
	full := set{}
	for i := range labels.Max {
		full[fmt.Sprint("k", i)] = ""
	}
	if _, err := labels.Apply(nil, full, nil); err != nil {
		t.Errorf("%d labels: %v", len(full), err)
	}
	if _, err := labels.Apply(full, set{"one-more": ""}, []string{"k1"}); err != nil {
		t.Errorf("one label in place of another: %v", err)
	}
	if _, err := labels.Apply(nil, set{strings.Repeat("k", 63): strings.Repeat("v", 256)}, nil); err != nil {
		t.Errorf("the longest label: %v", err)
	}
	for name, bad := range map[string]struct {
		old, put set
		remove   []string
	}{
		"too many":            {old: full, put: set{"one-more": ""}},
		"put and removed":     {put: set{"a": "1"}, remove: []string{"a"}},
		"empty key":           {put: set{"": "1"}},
		"long key":            {put: set{strings.Repeat("k", 64): ""}},
		"upper case":          {put: set{"Task": ""}},
		"space":               {put: set{"a b": ""}},
		"begins with a dot":   {put: set{".a": ""}},
		"begins with a slash": {put: set{"/a": ""}},
		"not ASCII":           {put: set{"é": ""}},
		"bad key to remove":   {remove: []string{"A"}},
		"long value":          {put: set{"a": strings.Repeat("v", 257)}},
		"control character":   {put: set{"a": "x\ny"}},
		"bidi override":       {put: set{"a": "x\u202ey"}},
		"not UTF-8":           {put: set{"a": "\xff"}},
	} {
		if got, err := labels.Apply(bad.old, bad.put, bad.remove); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%s: %v, %v, want EINVAL", name, got, err)
		}
	}
}

func TestSelectorMatches(t *testing.T) {
	t.Parallel()
	have := set{"owner": "ada", "empty": "", "eq": "a=b"}
	for _, test := range []struct {
		terms []string
		want  bool
	}{
		{nil, true},
		{[]string{"owner"}, true},
		{[]string{"owner=ada"}, true},
		{[]string{"owner=bob"}, false},
		{[]string{"owner="}, false},
		{[]string{"empty="}, true},
		{[]string{"eq=a=b"}, true},
		{[]string{"task"}, false},
		{[]string{"task="}, false},
		{[]string{"!task"}, true},
		{[]string{"!owner"}, false},
		{[]string{"owner", "!task"}, true},
		{[]string{"owner", "task"}, false},
	} {
		s, err := labels.Parse(test.terms)
		if err != nil || s.Matches(have) != test.want {
			t.Errorf("%q: %v, %v, want %t", test.terms, s.Matches(have), err, test.want)
		}
	}
	for _, bad := range []string{"", "!", "=x", "Owner", "a b", "!a=b", "a=\n"} {
		if _, err := labels.Parse([]string{bad}); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("selector %q: %v, want EINVAL", bad, err)
		}
	}
	if _, err := labels.Parse(make([]string, labels.MaxRequirements+1)); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("too many: %v, want EINVAL", err)
	}
}
