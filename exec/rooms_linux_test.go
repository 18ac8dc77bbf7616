package exec

import (
	"testing"
)

func TestSharedSandbox(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	server := s.begin(Command{Sandbox: "dev", Argv: []string{"python3", "-u", "-m", "http.server", "3000", "--bind", "127.0.0.1"}})
	s.awaitOutput(server, "Serving")
	exit, out, stderr := s.result(s.begin(Command{Sandbox: "dev", Argv: []string{"curl", "-s", "http://localhost:3000/app/seeded"}}))
	if exit.Code != 0 || out != "hello\n" {
		t.Errorf("got %+v, %q, %q", exit, out, stderr)
	}
}
