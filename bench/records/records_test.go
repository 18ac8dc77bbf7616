package records

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunMeasuresBothStores(t *testing.T) {
	if _, err := pgtest.Programs(); err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	if err := Run(t.Context(), Options{Dir: t.TempDir(), Sizes: []int{1, 3}, Rounds: 1}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{opens, again, first, stats, inSQLite, inPostgres} {
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "NaN") {
			t.Errorf("%q was not measured:\n%s", want, &out)
		}
	}
}
