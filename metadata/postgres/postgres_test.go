package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
	"github.com/ctxfs/ctxfs/metadata/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func parse(t *testing.T, url string) *postgres.Address {
	t.Helper()
	at, err := postgres.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// open opens the store of a database; the test closes it.
func open(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), parse(t, url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	metadatatest.Run(t, func(t *testing.T) metadata.Store { return open(t, pgtest.URL(t)) })
}
