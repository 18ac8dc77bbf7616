package command_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

// importedFiles is how many files an import of these tests has. Each holds importedSize bytes.
const importedFiles, importedSize = 300, 20_000

// archiveOf returns a tar archive of files with this letter, below a directory.
func archiveOf(t *testing.T, letter string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for n := range importedFiles {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d/%d", n), Mode: 0o644, Size: importedSize})
		if err == nil {
			_, err = io.WriteString(w, strings.Repeat(letter, importedSize))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// lettersOf counts the files below d of a folder by their letter. A file that is not whole fails the test.
func lettersOf(t *testing.T, folder string) map[string]int {
	t.Helper()
	found := map[string]int{}
	names, err := filepath.Glob(filepath.Join(folder, "d", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil || len(data) != importedSize || strings.Trim(string(data), string(data[:1])) != "" {
			t.Errorf("%s is not whole: %d bytes, %v", name, len(data), err)
			continue
		}
		found[string(data[:1])]++
	}
	return found
}

// TestAKilledServerLeavesNoImport kills a server while an archive arrives, and while one takes its place. The first leaves nothing, the
// second whole files; what was hidden is gone when the next server opens the context.
func TestAKilledServerLeavesNoImport(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	folder := filepath.Join(ws, ".contexts/ctx_a")
	hidden := func() []string {
		names, err := filepath.Glob(filepath.Join(folder, ".ctxfs-tmp-*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	old, fresh := archiveOf(t, "o"), archiveOf(t, "n")

	killedDuring(t, ws, func(f *client.FS, kill func()) {
		if _, err := f.Import(bytes.NewReader(old), "/", client.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		// The server has read all files when the reader is asked for the end.
		body := io.MultiReader(bytes.NewReader(fresh[:len(fresh)-1024]), onRead(func() {
			awaitTrue(t, "a draft has files", func() bool { return len(hidden()) > 0 })
			kill()
		}))
		if _, err := f.Import(body, "/", client.ImportOptions{Overwrite: true}); err == nil {
			t.Error("an import succeeded without a server")
		}
	})
	if got := lettersOf(t, folder); got["o"] != importedFiles || len(hidden()) == 0 {
		t.Errorf("killed while the archive arrived: %v, hidden %v; want the old files and the draft", got, hidden())
	}

	killedDuring(t, ws, func(f *client.FS, kill func()) {
		if _, err := f.ReadDir("."); err != nil { // opens the context
			t.Fatal(err)
		}
		if left := hidden(); len(left) > 0 {
			t.Errorf("the next server left %v", left)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := f.Import(bytes.NewReader(fresh), "/", client.ImportOptions{Overwrite: true})
			ended <- err
		}()
		awaitTrue(t, "the first file is new", func() bool { return lettersOf(t, folder)["n"] > 0 })
		kill()
		<-ended // it may have succeeded
	})
	if got := lettersOf(t, folder); got["o"]+got["n"] != importedFiles || got["n"] == 0 {
		t.Errorf("killed while files took their places: %v", got)
	}

	killedDuring(t, ws, func(f *client.FS, _ func()) {
		if _, err := f.Import(bytes.NewReader(fresh), "/", client.ImportOptions{Overwrite: true}); err != nil {
			t.Error(err)
		}
		if got := lettersOf(t, folder); got["n"] != importedFiles || len(hidden()) > 0 {
			t.Errorf("imported again: %v, hidden %v", got, hidden())
		}
	})
}

// killedDuring starts a server, and ends it by a kill at the latest after f.
func killedDuring(t *testing.T, ws string, f func(f *client.FS, kill func())) {
	t.Helper()
	cmd := serveProcess(t, ws, nil, nil)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := startedServer(ws, cmd, ended); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), client.WithDir(ws), client.WithGetenv(func(string) string { return "" }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnsureContext(t.Context(), "ctx_a", nil); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Signal(syscall.SIGKILL) } // it may have ended
	f(c.Context("ctx_a").With(t.Context()), kill)
	kill()
	<-ended
	_ = c.Close() // its server is gone
}

// onRead is a reader that calls a function, and then ends.
type onRead func()

func (f onRead) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// awaitTrue waits for what is expected to happen.
func awaitTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !soon(is) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}

// soon reports whether something that another process does happens.
func soon(is func() bool) bool {
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) { // clock: the other process has no event to wait for
		if time.Now().After(end) { // clock: it bounds a hang
			return false
		}
	}
	return true
}
