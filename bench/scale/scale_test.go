package scale

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func figures(session, handle int64) Figures {
	row := PanelRow{Panels: 1000, None: Memory{Heap: 1 << 20}}
	row.Shared = Memory{Heap: row.None.Heap + 1000*session}
	row.Own = row.Shared
	return Figures{Panels: []PanelRow{row}, HandleHeap: float64(handle), Directories: []DirectoryRow{{Entries: 1000, Took: time.Millisecond}}}
}

func TestRequired(t *testing.T) {
	for _, c := range []struct {
		name            string
		session, handle int64
		want            []string
	}{
		{"enough", 40<<10 - 1, 255, []string{"ok", "ok", "ok"}},
		{"not under, but at", 40 << 10, 256, []string{"**short**", "**short**", "**short**"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, r := range figures(c.session, c.handle).required().Rows {
				got = append(got, r[3])
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestWriteMakesTheReportAndItsPlot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	f := figures(1, 1)
	if err := f.write(dir, f.Text()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scale.md", "scale.svg"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(b, []byte("1,000")) {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
	}
}

func TestTheServerAnswersEachLine(t *testing.T) {
	var out bytes.Buffer
	if err := answer(strings.NewReader("memory\nmemory\n"), &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), memoryPrefix+`{"Heap":`); n != 2 {
		t.Errorf("%d answers: %s", n, out.String())
	}
}

func TestASparseFileSaysWhereItWasRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := sparse(path, 1<<20, []int64{0, 4096}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) != 1<<20 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if err := checkMark(b[4096:], 4096); err != nil {
		t.Error(err)
	}
	if err := checkMark(b, 4096); err == nil {
		t.Error("the mark of another place was taken")
	}
}
