package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/cli"
)

// drawEnv makes the test binary draw bars in the terminal that it is started in.
const drawEnv = "CTXFS_TEST_DRAW"

// barStep is a state of a bar, and what the terminal's only line must then contain.
type barStep struct {
	what        string
	done, total int64
	want        string
}

var barSteps = []barStep{
	{"looking at the workspace", 7168, 0, "workspace"},
	{"copying the workspace", 0, 12_000, "(0/12000)"},
	{"copying the workspace", 6_000, 12_000, " 50% |"},
	{"copying the workspace", 12_000, 12_000, " 99% |"},
	{"making the folder", 0, 1_000_000, "  0% |"},
	{"/a/very/long/path/" + strings.Repeat("of/many/folders/", 20) + "file.txt", 5, 10, "file.txt"},
}

// draw takes a step at each line of standard input, and answers with a signal to tmux.
func draw(channel string) int {
	b := cli.NewBar(os.Stderr, false)
	in := bufio.NewScanner(os.Stdin)
	for i := 0; in.Scan(); i++ {
		if i < len(barSteps) {
			b.Set(barSteps[i].what, barSteps[i].done, barSteps[i].total)
		} else {
			b.End()
		}
		if err := exec.Command("tmux", "wait-for", "-S", fmt.Sprint(channel, i)).Run(); err != nil {
			return 1
		}
	}
	return 0
}

// TestBarFitsTheTerminal looks at the screens of real terminals.
func TestBarFitsTheTerminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skipf("not run: %v", err)
	}
	for _, columns := range []int{60, 80, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "tmux")
			tmux := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("tmux %q: %v\n%s", args, err, out)
				}
				return string(out)
			}
			// Without echo, a line that is typed shows nothing.
			tmux("new-session", "-d", "-x", fmt.Sprint(columns), "-y", "10", "sh", "-c", "stty -echo; exec env "+drawEnv+"=step '"+os.Args[0]+"'")
			defer tmux("kill-server")
			for i, step := range append(barSteps, barStep{}) {
				tmux("send-keys", "Enter")
				tmux("wait-for", fmt.Sprint("step", i))
				screen := strings.TrimRight(tmux("capture-pane", "-p"), "\n ")
				lines := strings.Split(screen, "\n")
				if last := lines[len(lines)-1]; !strings.Contains(last, step.want) || strings.Contains(screen, "-9") || step.want == "" && strings.TrimSpace(screen) != "" {
					t.Errorf("step %d shows\n%s\nwant %q", i, screen, step.want)
				}
				if strings.Count(screen, "|") > 2 || strings.Contains(screen, "looking") && i > 0 {
					t.Errorf("step %d shows more than one bar:\n%s", i, screen)
				}
				for _, l := range lines {
					if utf8.RuneCountInString(l) > columns {
						t.Errorf("step %d: a line of %d columns", i, utf8.RuneCountInString(l))
					}
				}
				t.Logf("%s", screen)
			}
		})
	}
}
