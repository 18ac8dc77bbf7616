package git

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// filterTimeout bounds the look at the attributes of a tree.
const filterTimeout = 2 * time.Minute

// Filters returns the filter of each of these paths that has one, by the .gitattributes files of a tree. No filter runs. The contents of the
// .gitattributes files have to be there.
func (o *Objects) Filters(ctx context.Context, tree string, paths []string) (map[string]string, error) {
	if _, err := o.runner.run(ctx, filterTimeout, "read-tree", tree); err != nil {
		return nil, err
	}
	in := strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	out, err := o.runner.feed(ctx, filterTimeout, in, "check-attr", "--cached", "--stdin", "-z", "filter")
	if err != nil {
		return nil, err
	}
	return parseFilters(out, len(paths))
}

// parseFilters reads what git check-attr -z prints of the attribute filter of so many paths.
func parseFilters(out []byte, paths int) (map[string]string, error) {
	f := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(f) != 3*paths {
		return nil, fmt.Errorf("git check-attr printed %d values for %d paths", len(f), paths)
	}
	filters := map[string]string{}
	for i := 0; i < len(f); i += 3 {
		if value := f[i+2]; value != "unspecified" && value != "unset" {
			filters[f[i]] = value
		}
	}
	return filters, nil
}
