package howto

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the repository.
const root = "../.."

// inlineLink matches [text](target) of Markdown.
var inlineLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// documentPath matches the path of a page in docs, where a comment, a message or a page names it.
var documentPath = regexp.MustCompile(`\bdocs/[\w./-]+\.(?:md|svg)\b`)

// tracked returns the files of the repository whose names match the patterns, by paths from its root.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "--"}, patterns...)
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return strings.Fields(string(out))
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// prose returns a page without its blocks of code.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
}

// anchors returns the names by which links reach the headings of a page, as GitHub makes them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(page), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

// TestLinksResolve checks the relative links of all pages, with their anchors.
func TestLinksResolve(t *testing.T) {
	pages := tracked(t, "*.md")
	if len(pages) < 20 {
		t.Fatalf("%d pages: the test does not see the repository", len(pages))
	}
	for _, page := range pages {
		for _, link := range inlineLink.FindAllStringSubmatch(prose(read(t, page)), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, ":") {
				continue // another site
			}
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, link[1])
			} else if anchor != "" && !anchors(read(t, file))[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, file, anchor)
			}
		}
	}
}

// TestNamedPagesExist checks the pages of docs that code, comments and changelog entries name.
func TestNamedPagesExist(t *testing.T) {
	for _, file := range tracked(t, "*.go", "*.ts", "*.proto", "*.md", "*.yaml", "*.service", "scripts/*") {
		for _, name := range documentPath.FindAllString(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil && !strings.HasPrefix(file, "client/ts/test/") {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// TestReadmeFitsATerminal bounds the lines of the page that people read first.
func TestReadmeFitsATerminal(t *testing.T) {
	for i, line := range strings.Split(read(t, "README.md"), "\n") {
		if n := utf8.RuneCountInString(line); n >= 140 {
			t.Errorf("README.md:%d has %d columns: %.40s…", i+1, n, line)
		}
	}
}
