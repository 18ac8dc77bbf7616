package mcp

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

func TestErrorsNameTheArgumentsOfTools(t *testing.T) {
	t.Parallel()
	err := explained(fserrpb.ToStatus(&fserr.Error{
		Code: fserr.EEXIST, Op: "rename", Path: "/old_text", Dest: "/b", Detail: "file already exists, and if_none_match requires that it does not",
		Hint: "read it, and repeat the change with its etag as if_match, or choose another name",
	}))
	if want := "EEXIST: file already exists; choose another name, or remove it first, rename '/old_text' -> '/b'"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestModelsDoNotSeeTheServersAddress(t *testing.T) {
	t.Parallel()
	err := explained(status.Error(codes.Unavailable, "dial unix /home/me/.contexts/.ctxfs/ctxfs.sock: connect: no such file or directory"))
	if text := err.Error(); strings.Contains(text, "/home") || !strings.Contains(text, "ctxfs serve") {
		t.Error(text)
	}
}
