package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

type sizesArgs struct {
	Path   string `json:"path" jsonschema:"the directory"`
	SortBy string `json:"sortBy,omitempty" jsonschema:"name (the default) or size"`
}

type treeArgs struct {
	Path    string   `json:"path" jsonschema:"the directory"`
	Exclude []string `json:"excludePatterns,omitempty" jsonschema:"names or globs, from path on, that are left out with what is below them"`
}

func (s *Server) addDirectories() {
	reads := hints{reads: true}
	add(s, "list_directory", "List directory", "Lists a directory, with [DIR] or [FILE] before each name.", reads, s.list)
	add(s, "list_directory_with_sizes", "List directory with sizes", "Lists a directory with the sizes of its files and their sum.", reads, s.listSizes)
	add(s, "directory_tree", "Directory tree", "Shows what is below a directory as JSON: name, type, and children of directories.", reads, s.tree)
	add(s, "get_file_info", "Get file info", "Shows size, times, type, permissions and etag of a file or directory.", reads, s.info)
	add(s, "list_allowed_directories", "List allowed directories", "Names the directory whose files can be used: the root.", reads,
		func(context.Context, struct{}) (string, error) { return "Allowed directories:\n/", nil })
}

// maxEntries bounds the entries of a directory that are read.
const maxEntries = 10_000

// entries returns the entries of a directory, by name. more says that there are others.
func (s *Server) entries(ctx context.Context, name string, stats bool) (list []*ctxfsv1.DirEntry, more bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := s.fs.Opendir(ctx, &ctxfsv1.OpendirRequest{ContextId: s.context, Path: name, WithStats: stats})
	err = each(stream, err, func(r *ctxfsv1.OpendirResponse) error {
		list = append(list, r.GetEntries().GetEntries()...)
		if more = len(list) > maxEntries; more {
			list = list[:maxEntries]
			return io.EOF
		}
		return nil
	})
	slices.SortFunc(list, func(a, b *ctxfsv1.DirEntry) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	return list, more, err
}

// nameOf returns a name as text. Bytes that are not UTF-8 are escaped.
func nameOf(e *ctxfsv1.DirEntry) string {
	if raw := e.GetRawName(); len(raw) > 0 {
		return strings.Trim(fmt.Sprintf("%+q", raw), `"`)
	}
	return e.GetName()
}

// parentOf returns the directory of an entry as nameOf does its name.
func parentOf(e *ctxfsv1.DirEntry) string {
	if raw := e.GetRawParentPath(); len(raw) > 0 {
		return strings.Trim(fmt.Sprintf("%+q", raw), `"`)
	}
	return e.GetParentPath()
}

func isDir(e *ctxfsv1.DirEntry) bool { return e.GetType() == ctxfsv1.FileType_FILE_TYPE_DIRECTORY }

func marked(e *ctxfsv1.DirEntry) string {
	if isDir(e) {
		return "[DIR] " + nameOf(e)
	}
	return "[FILE] " + nameOf(e)
}

// findOthers says how to find the entries of a directory that a result leaves out.
const findOthers = "find the others with search_files"

func (s *Server) list(ctx context.Context, in pathArgs) (string, error) {
	entries, more, err := s.entries(ctx, in.Path, false)
	if err != nil {
		return "", err
	}
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		list = append(list, marked(e))
	}
	return s.lines(list, more, findOthers), nil
}

func (s *Server) listSizes(ctx context.Context, in sizesArgs) (string, error) {
	if in.SortBy != "" && in.SortBy != "name" && in.SortBy != "size" {
		return "", fmt.Errorf("sortBy is %.20q; use name or size", in.SortBy)
	}
	entries, more, err := s.entries(ctx, in.Path, true)
	if err != nil {
		return "", err
	}
	if in.SortBy == "size" {
		slices.SortStableFunc(entries, func(a, b *ctxfsv1.DirEntry) int { return cmp.Compare(b.GetStat().GetSize(), a.GetStat().GetSize()) })
	}
	list := make([]string, 0, len(entries))
	files, sum := 0, int64(0)
	for _, e := range entries {
		size := ""
		if !isDir(e) {
			files++
			sum += e.GetStat().GetSize()
			size = sized(e.GetStat().GetSize())
		}
		kind, name, _ := strings.Cut(marked(e), " ")
		list = append(list, fmt.Sprintf("%s %-30s %10s", kind, name, size))
	}
	summary := fmt.Sprintf("\nTotal: %d files, %d directories\nCombined size: %s", files, len(entries)-files, sized(sum))
	if len(list) == 0 {
		return summary, nil
	}
	return s.lines(list, more, findOthers) + "\n" + summary, nil
}

// sized writes a size as the reference server does.
func sized(n int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	value, i := float64(n), 0
	for ; value >= 1024 && i < len(units)-1; i++ {
		value /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.2f %s", value, units[i])
}

// branch is a file or directory of a tree.
type branch struct {
	Name     string     `json:"name"`
	Type     string     `json:"type"`
	Children *[]*branch `json:"children,omitempty"`
}

// maxTree bounds the entries of a tree.
const maxTree = 5000

func (s *Server) tree(ctx context.Context, in treeArgs) (string, error) {
	var exclude []string
	for _, p := range in.Exclude {
		exclude = append(exclude, p)
		if !strings.Contains(p, "*") {
			exclude = append(exclude, path.Join("**", p))
		}
	}
	found, more, err := s.glob(ctx, &ctxfsv1.GlobRequest{Path: in.Path, Patterns: []string{"**"}, Exclude: exclude, WithFileTypes: true, MaxMatches: maxTree})
	if err != nil {
		return "", err
	}
	tooMuch := fmt.Errorf("the tree of %s has too much to show; name a directory below it, exclude more, or use search_files", in.Path)
	top := treeOf(found)
	if more || leastSize(top, 0) > s.limit {
		return "", tooMuch
	}
	data, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		return "", err
	}
	if len(data) > s.limit {
		return "", tooMuch
	}
	return string(data), nil
}

// leastSize returns a size that the JSON of a tree has at least: the indentation grows with the square of the depth.
func leastSize(tree []*branch, depth int) int {
	const fields, level = 40, 16 // of an entry: its braces and fields, and the indentation of their four lines
	size := 0
	for _, b := range tree {
		size += fields + level*depth + len(b.Name)
		if b.Children != nil {
			size += leastSize(*b.Children, depth+1)
		}
	}
	return size
}

// treeOf returns the trees that entries make up.
func treeOf(found []*ctxfsv1.DirEntry) []*branch {
	full := func(e *ctxfsv1.DirEntry) string { return path.Join(parentOf(e), nameOf(e)) }
	sortByPath(found)
	top, dirs := []*branch{}, map[string]*branch{}
	for _, e := range found {
		b := &branch{Name: nameOf(e), Type: "file"}
		if isDir(e) {
			b.Type, b.Children = "directory", &[]*branch{}
			dirs[full(e)] = b
		}
		if parent := dirs[parentOf(e)]; parent != nil {
			*parent.Children = append(*parent.Children, b)
		} else {
			top = append(top, b)
		}
	}
	return top
}

func (s *Server) info(ctx context.Context, in pathArgs) (string, error) {
	r, err := s.fs.Stat(ctx, &ctxfsv1.StatRequest{ContextId: s.context, Path: in.Path})
	if err != nil {
		return "", err
	}
	st := r.GetStat()
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z") }
	return fmt.Sprintf("size: %d\ncreated: %s\nmodified: %s\naccessed: %s\nisDirectory: %t\nisFile: %t\npermissions: %03o\netag: %s",
		st.GetSize(), at(st.GetBirthtimeNs()), at(st.GetMtimeNs()), at(st.GetAtimeNs()),
		st.GetType() == ctxfsv1.FileType_FILE_TYPE_DIRECTORY, st.GetType() == ctxfsv1.FileType_FILE_TYPE_FILE, st.GetMode()&0o777, r.GetEtag()), nil
}
