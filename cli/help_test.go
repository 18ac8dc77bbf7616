package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflectv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
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

// TestHelpGrpcurlPrintsLinesForTheServerHere lets a shell read the lines for a host and for a panel, and makes the
// calls that grpcurl would make: without protos, it first asks the server to describe itself.
func TestHelpGrpcurlPrintsLinesForTheServerHere(t *testing.T) {
	s := serve(t)
	text := s.ok("help", "grpcurl")
	if !strings.Contains(text, "The server here:") || !strings.Contains(text, `/.ctxfs/host.token')".`) {
		t.Errorf("help grpcurl printed\n%s", text)
	}
	var headers []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, " -d ") {
			continue
		}
		script := s.ok("panel", "open", "--export", "demo") + `grpcurl() { printf '%s\n' "$@"; }; ` + line
		out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		args := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(args) < 3 || args[0] != "-plaintext" {
			t.Fatalf("%s: the arguments are %q", line, args)
		}
		flags, target := map[string]string{}, args[len(args)-2:]
		for flag := range slices.Chunk(args[1:len(args)-2], 2) {
			flags[flag[0]] = flag[1]
		}
		key, value, _ := strings.Cut(flags["-H"], ": ")
		headers = append(headers, key)
		ctx := metadata.AppendToOutgoingContext(t.Context(), key, value)
		conn, err := grpc.NewClient(target[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := os.Stat(filepath.Join("..", flags["-import-path"], flags["-proto"])); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if flags["-proto"] == "" {
			stream, err := reflectv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
			if err == nil {
				list := &reflectv1.ServerReflectionRequest_ListServices{}
				err = stream.Send(&reflectv1.ServerReflectionRequest{MessageRequest: list})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		request, reply := &ctxfsv1.ReaddirRequest{}, &ctxfsv1.ReaddirResponse{}
		if err := protojson.Unmarshal([]byte(flags["-d"]), request); err != nil {
			t.Fatal(err)
		}
		if err := conn.Invoke(ctx, "/"+target[1], request, reply); err != nil || len(reply.GetEntries()) == 0 {
			t.Errorf("%s: %v, %v", line, reply, err)
		}
	}
	if !slices.Equal(headers, []string{"ctxfs-panel", "authorization"}) {
		t.Errorf("the lines are for %q", headers)
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
