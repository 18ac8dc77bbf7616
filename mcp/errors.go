package mcp

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// words turns the names of a request's fields into those of the tools' arguments.
var words = strings.NewReplacer(
	"set all, or name start_line and end_line", "or use the tool edit with all, or with startLine and endLine",
	"give the text to replace, or start_line and end_line", "give the text to replace, or use the tool edit with startLine and endLine",
	", and if_none_match requires that it does not", "",
	"read it, and repeat the change with its etag as if_match, or choose another name", "choose another name, or remove it first",
	"read the file again, and repeat the change with its new etag", "read the file again, and repeat the change with the etag that get_file_info shows",
	"repeat the change with if_none_match \"*\" to create it again", "leave ifMatch out to create it again",
	"old_text", "oldText", "new_text", "newText", "start_line", "startLine", "end_line", "endLine", "if_match", "ifMatch",
	"or use FsService/ReadStream", "or use head, tail, startLine or grep", "FsService/ReadStream", "head, tail or startLine", "FsService/Grep", "grep",
)

// explained returns an error in words for a model: what failed, why, and what to do.
func explained(err error) error {
	if e, ok := fserrpb.FromStatus(err); ok {
		own := *e
		own.Detail, own.Hint = words.Replace(e.Detail), words.Replace(e.Hint)
		return errors.New(own.Error())
	}
	switch st, ok := status.FromError(err); {
	case ok && st.Code() == codes.Unavailable: // its text has the server's address, which is not for the model
		return errors.New("the ctxfs server does not answer; try again, or ask the user to start it with: ctxfs serve")
	case ok:
		return errors.New(st.Message())
	}
	return err
}
