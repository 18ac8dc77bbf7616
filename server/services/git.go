package services

import (
	"context"
	"errors"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/repos"
	"github.com/ctxfs/ctxfs/review"
)

// Git implements GitService.
type Git struct {
	ctxfsv1.UnimplementedGitServiceServer
	Repos    *repos.Repos
	Contexts ContextInfo
	// Into returns the zone that a context was seeded into, "" for none. nil says that contexts have no zones.
	Into func(ctx context.Context, id contexts.ID) (string, error)
}

// gitRetry is after how long a call with GIT_LOCKED or GIT_UNREACHABLE may be repeated.
const gitRetry = time.Second

// gitStatus is reviewStatus, and makes a refusal of package repos the one that travels. into is the zone that the context was seeded into,
// "" for none.
func gitStatus(err error, into string) error {
	var refused *repos.Error
	if !errors.As(err, &refused) {
		err = reviewStatus(err)
		_ = enterRefusal(into, err)
		return err
	}
	out := &fserrpb.Refusal{Reason: string(refused.Reason), Detail: refused.Detail, Hint: refused.Hint, Metadata: map[string]string{"kind": "git"}, Err: err}
	set := func(key, value string) {
		if value != "" {
			out.Metadata[key] = value
		}
	}
	set("operation", refused.Operation)
	set("repo", zonedRepo(into, review.Path(refused.Repo)))
	set("ref", refused.Ref)
	set("expected", refused.Expected)
	set("actual", refused.Actual)
	if refused.MayHaveHappened {
		set("may_have_happened", "true")
	}
	for _, p := range refused.Paths {
		pb := &ctxfsv1.RefusedFile{}
		pb.Path, pb.RawPath = twin(zonedPath(into, p))
		out.Files = append(out.Files, pb)
	}
	if refused.Retry() {
		out.RetryAfter = gitRetry
	}
	return out
}

// zonedRepo is zonedPath for the path of a repository, which is escaped if it is not UTF-8.
func zonedRepo(into string, p review.Path) string {
	return fserrpb.Printable(zonedPath(into, string(p)))
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
