package cli_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestHelpExplainsMethods(t *testing.T) {
	s := &shell{t: t, dir: t.TempDir()} // no server runs
	for name, wants := range map[string][]string{
		"readFile":               {"ctxfs.v1.FsService.ReadFile\n", "for panels and hosts; reads", "Errors: ENOENT", "ReadFileRequest\n", "    encoding  (string)\n", "ReadFileResponse\n", "one of content"},
		"PanelService/OpenPanel": {"for hosts; may change something", "OpenPanelResponse\n"},
		"Readdir":                {"\nStat\n", "FILE_TYPE_DIRECTORY: "}, // messages and enums within its own
	} {
		out := s.ok("help", name)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("ctxfs help %s lacks %q:\n%s", name, want, out)
			}
		}
	}
}

func TestHelpStillExplainsCommands(t *testing.T) {
	s := &shell{t: t, dir: t.TempDir()}
	if out := s.ok("help", "panel", "open"); !strings.Contains(out, "ctxfs panel open ID [flags]") {
		t.Errorf("help panel open printed\n%s", out)
	}
	if out := s.ok("help"); !strings.Contains(out, "Files of a context:") {
		t.Errorf("help printed\n%s", out)
	}
	for _, args := range [][]string{{"help", "readfle"}, {"help", "panl", "open"}} {
		code, _, errs := s.run(args...)
		if code != 2 || !strings.Contains(errs, "did you mean ") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	if _, out, _ := s.run("__complete", "help", "Rea"); !strings.Contains(out, "ReadFile\n") {
		t.Errorf("completing help Rea: %q", out)
	}
}

// TestHelpGrpcurlPrintsALineForTheServerHere lets a shell read the line, and makes the call that grpcurl would make.
func TestHelpGrpcurlPrintsALineForTheServerHere(t *testing.T) {
	s := serve(t)
	text := s.ok("help", "grpcurl")
	if !strings.Contains(text, "The server here:") || !strings.Contains(text, `/.ctxfs/host.token')".`) {
		t.Errorf("help grpcurl printed\n%s", text)
	}
	_, line, _ := strings.Cut(text, "\n  ")
	line, _, _ = strings.Cut(line, "\n")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `grpcurl() { printf '%s\n' "$@"; }; `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	args := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(args) != 7 || !slices.Equal(args[:4], []string{"-plaintext", "-H", "ctxfs-panel: demo", "-d"}) {
		t.Fatalf("%s: the arguments are %q", line, args)
	}
	conn, err := grpc.NewClient(args[5], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request, reply := &ctxfsv1.ReaddirRequest{}, &ctxfsv1.ReaddirResponse{}
	if err := protojson.Unmarshal([]byte(args[4]), request); err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), strings.Split(args[2], ": ")...)
	if err := conn.Invoke(ctx, "/"+args[6], request, reply); err != nil || len(reply.GetEntries()) == 0 {
		t.Errorf("%s: %v, %v", line, reply, err)
	}
}

func TestHelpGrpcurlNeedsNoServer(t *testing.T) {
	s := &shell{t: t, dir: t.TempDir()}
	if text := s.ok("help", "grpcurl"); !strings.Contains(text, "No server answers here") || !strings.Contains(text, "\n  grpcurl -plaintext ") {
		t.Errorf("help grpcurl printed\n%s", text)
	}
	if _, out, _ := s.run("__complete", "help", "grp"); !strings.Contains(out, "grpcurl\n") {
		t.Errorf("completing help grp: %q", out)
	}
}
