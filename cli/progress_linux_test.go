package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/cli"
)

// TestBarIsDrawnTenTimesASecond counts the drawings of a busy second.
func TestBarIsDrawnTenTimesASecond(t *testing.T) {
	t.Parallel()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	synctest.Test(t, func(*testing.T) {
		b := cli.NewBar(tty, false)
		for i := range int64(1000) {
			b.Later("copying", i, 1000)
			time.Sleep(time.Millisecond)
		}
	})
	if _, err := tty.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	var shown string
	for buf := make([]byte, 4096); !strings.Contains(shown, "end"); {
		read, err := master.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(buf[:read])
	}
	if drawn := strings.Count(shown, "copying"); drawn < 9 || drawn > 10 {
		t.Errorf("%d drawings:\n%q", drawn, shown)
	}
}
