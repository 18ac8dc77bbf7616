package killtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ctxfs/ctxfs/internal/killtest"
)

// noteEnv names the file that a process of the killed one makes last.
const noteEnv = "CTXFS_TEST_NOTE"

func TestMain(m *testing.M) {
	if note := os.Getenv(noteEnv); note != "" {
		fmt.Println(startWriter(note))
		return
	}
	os.Exit(m.Run())
}

// startWriter starts a process that writes the note when this one has ended.
func startWriter(note string) error {
	writer := exec.Command("sh", "-c", `cat; : >"$0"`, note)
	if _, err := writer.StdinPipe(); err != nil { // closed by this process's end
		return err
	}
	if err := writer.Start(); err != nil {
		return err
	}
	killtest.Stop("writing")
	return nil
}

func TestAtWaitsForTheProcessesOfTheKilledOne(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("not tested: there is no sh")
	}
	for range 20 {
		note := filepath.Join(t.TempDir(), "note")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), noteEnv+"="+note)
		killtest.At(t, cmd, "writing")
		if _, err := os.Lstat(note); err != nil {
			t.Fatalf("At returned while a process was writing: %v", err)
		}
	}
}
