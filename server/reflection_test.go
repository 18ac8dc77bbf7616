package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	reflectv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestReflectionHasComments asks as grpcurl's describe does.
func TestReflectionHasComments(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	stream, err := reflectv1.NewServerReflectionClient(r.host(t)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for symbol, comment := range map[string]string{"ctxfs.v1.FsService": " Reads a whole file.", "grpc.health.v1.Health": ""} {
		err := stream.Send(&reflectv1.ServerReflectionRequest{MessageRequest: &reflectv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		files := reply.GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(files) == 0 {
			t.Fatalf("%s: %v", symbol, reply.GetErrorResponse())
		}
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(files[0], &file); err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(file.GetSourceCodeInfo().GetLocation(), func(l *descriptorpb.SourceCodeInfo_Location) bool {
			return strings.HasPrefix(l.GetLeadingComments(), comment)
		})
		if comment != "" && !found {
			t.Errorf("%s comes without the comment %q", symbol, comment)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// TestReflectionIsForHosts asks as grpcurl does for a panel, which learns what works instead.
func TestReflectionIsForHosts(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	ctx := with(t, "authorization", "Bearer "+r.openPanel(t, "p").GetToken())
	stream, err := reflectv1.NewServerReflectionClient(r.host(t)).ServerReflectionInfo(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	wantError(t, err, codes.PermissionDenied, "EACCES", "-import-path proto -proto ctxfs/v1/fs.proto")
}

// TestMetricsPage compares docs/reference/metrics.md with what a server exports.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HTTP = "127.0.0.1:0"
	r := start(t, cfg)
	descs := make(chan *prometheus.Desc)
	go func() {
		r.metrics.registry.Describe(descs)
		close(descs)
	}()
	form := regexp.MustCompile(`fqName: "([a-z_]+)", help: "([^"]*)", (?:unit: "[^"]*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}`)
	label := regexp.MustCompile(`([a-z_]+)(?:="[^"]*")?`)
	var rows []string
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("not understood: %s", d)
		}
		var labels []string
		for _, l := range label.FindAllStringSubmatch(m[3]+","+m[4], -1) {
			labels = append(labels, "`"+l[1]+"`")
		}
		rows = append(rows, "| `"+m[1]+"` | "+strings.Join(labels, ", ")+" | "+m[2]+" |")
	}
	slices.Sort(rows)
	table := strings.Join(slices.Compact(rows), "\n") + "\n"
	page, err := os.ReadFile(filepath.Join("..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table) {
		t.Errorf("docs/reference/metrics.md lacks this table:\n%s", table)
	}
}
