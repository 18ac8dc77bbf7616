package howto

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/server"
)

// TestTutorial runs the commands of the tutorial, and compares what they print with what it shows.
func TestTutorial(t *testing.T) {
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, driver)
			m.sh("rm -r work")
			data, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorials", "two-agents.md"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.sh("cd work && ctxfs stop || true") })
			work := strings.NewReplacer("~/work", m.dir+"/work")
			for i, block := range regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:```\n(.*?)```\n)?").FindAllStringSubmatch(string(data), -1) {
				commands, want := work.Replace(block[1]), block[2]
				if i > 0 {
					commands = "cd work\n" + commands
				}
				if strings.Contains(want, "\nctxfs: ") {
					commands = strings.TrimSuffix(commands, "\n") + " || true\n"
				}
				if got := m.sh(commands); want != "" && got != want {
					t.Errorf("%s\nprints:\n%s\nthe tutorial says:\n%s", block[1], got, want)
				}
			}
		})
	}
}
