package services

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/repos"
)

// Git implements GitService.
type Git struct {
	ctxfsv1.UnimplementedGitServiceServer
	Repos    *repos.Repos
	Contexts ContextInfo
	// Into returns the zone that a context was seeded into, "" for none. nil says that contexts have no zones.
	Into func(ctx context.Context, id contexts.ID) (string, error)
}

var gitCodes = map[repos.Reason]codes.Code{
	repos.Conflict: codes.Aborted, repos.NonFastForward: codes.Aborted, repos.StaleBase: codes.Aborted,
	repos.WorktreeDirty: codes.FailedPrecondition, repos.Auth: codes.FailedPrecondition, repos.Rejected: codes.FailedPrecondition,
	repos.NothingToCommit: codes.FailedPrecondition, repos.Locked: codes.Unavailable, repos.Unreachable: codes.Unavailable,
	repos.NoRepository: codes.NotFound, repos.NoRef: codes.NotFound, repos.NoStaged: codes.NotFound,
	repos.NeedsFilter: codes.Unimplemented, repos.IsSubmodule: codes.Unimplemented, repos.TooLarge: codes.ResourceExhausted,
}

// gitRetry is after how long a call with GIT_LOCKED or GIT_UNREACHABLE may be repeated.
const gitRetry = time.Second

// gitStatus is reviewStatus, and for a refusal of package repos a status with its reason and metadata. into is the zone that the context was
// seeded into, "" for none.
func gitStatus(err error, into string) error {
	var refused *repos.Error
	if !errors.As(err, &refused) {
		return reviewStatus(err)
	}
	metadata := map[string]string{"kind": "git", "detail": refused.Detail}
	set := func(key, value string) {
		if value != "" {
			metadata[key] = value
		}
	}
	set("hint", refused.Hint)
	set("operation", refused.Operation)
	set("repo", zonedPath(into, refused.Repo))
	set("ref", refused.Ref)
	set("expected", refused.Expected)
	set("actual", refused.Actual)
	var paths []string
	for _, p := range refused.Paths[:min(len(refused.Paths), maxNamed)] {
		paths = append(paths, strings.ToValidUTF8(zonedPath(into, p), "\uFFFD"))
	}
	set("paths", strings.Join(paths, "\n"))
	if refused.MayHaveHappened {
		metadata["may_have_happened"] = "true"
	}
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: string(refused.Reason), Domain: fserrpb.Domain, Metadata: metadata})}
	if refused.Retry() {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(gitRetry)}))
	}
	st, derr := status.New(gitCodes[refused.Reason], strings.ToValidUTF8(refused.Error(), "\uFFFD")).WithDetails(details...)
	if derr != nil {
		return fserrpb.ToStatus(derr)
	}
	return st.Err()
}

// zonedPath returns a path of the workspace, relative to it, as a path of a context that was seeded into a zone; "" is the context's root.
func zonedPath(into, p string) string {
	switch {
	case into == "":
		return "/" + p
	case p == "":
		return "/" + into
	}
	return "/" + into + "/" + p
}
