package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// driverLine is what doctor says of drivers.
func driverLine(t *testing.T, ws string, more ...string) (line string, code int) {
	t.Helper()
	code, out, _, _ := run(t, nil, append([]string{"doctor", "--workspace", ws, "--disk-reserve", "0"}, more...)...)
	for l := range strings.Lines(out) {
		if fields := strings.Fields(l); len(fields) > 1 && fields[1] == "driver" {
			line += l
		}
	}
	return line, code
}

func TestDoctorSaysWhichDriver(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	before, err := os.ReadDir(ws)
	if err != nil {
		t.Fatal(err)
	}
	refused := server.OverlayRefusal(t.Context(), ws)
	want := map[string]string{"copy": "ok    driver     copy; overlay works here too", "overlay": "driver     overlay"}
	if refused != "" {
		want = map[string]string{"copy": "ok    driver     copy; overlay would be refused: " + refused, "overlay": "fail  driver     driver overlay: " + refused,
			"auto": "ok    driver     copy; overlay refused: " + refused}
	}
	for driver, text := range want {
		line, code := driverLine(t, ws, "--driver", driver)
		if !strings.Contains(line, text) || (code == 1) != strings.HasPrefix(line, "fail") {
			t.Errorf("%s: exit %d, %q, want %q", driver, code, line, text)
		}
	}
	if after, err := os.ReadDir(ws); err != nil || len(after) != len(before) {
		t.Errorf("doctor left %v, %v", after, err)
	}
}

// TestDoctorFindsContextsThatCannotBeUsed has contexts of a driver that is refused: nothing can be mounted
// where no contexts directory can be written to.
func TestDoctorFindsContextsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	if line, _ := driverLine(t, ws); strings.Contains(line, "cannot be used") {
		t.Errorf("without any: %s", line)
	}
	if err := os.MkdirAll(filepath.Join(ws, ".contexts/.ctxfs/overlay/ctx_a/upper"), 0o700); err != nil {
		t.Fatal(err)
	}
	refused := server.OverlayRefusal(t.Context(), ws)
	line, code := driverLine(t, ws)
	if told := strings.Contains(line, "contexts of the overlay driver that cannot be used here: 1"); told != (refused != "") || told != (code == 1) {
		t.Errorf("exit %d, %q, though overlay is refused by %q", code, line, refused)
	}
}

// TestDoctorFindsKilledChecks has what a killed check of the overlay driver leaves.
func TestDoctorFindsKilledChecks(t *testing.T) {
	t.Parallel()
	const left = ".ctxfs-tmp-check-1"
	ws := servertest.Workspace(t)
	dir := filepath.Join(ws, ".contexts", left)
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if line, _ := driverLine(t, ws); !strings.Contains(line, "warn  driver") || !strings.Contains(line, left) {
		t.Errorf("doctor says %q", line)
	}
	line, _ := driverLine(t, ws, "--repair")
	if _, err := os.Lstat(dir); strings.Contains(line, left) || !os.IsNotExist(err) {
		t.Errorf("after a repair doctor says %q, and it is there: %v", line, err)
	}
}
