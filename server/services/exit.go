package services

import (
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

func exitToPB(e *exec.Exit) *ctxfsv1.Exit {
	pb := &ctxfsv1.Exit{
		Code: int32(e.Code), Reason: ctxfsv1.ExitReason(e.Reason), Detail: fserrpb.Printable(e.Detail), EndedNs: e.At.UnixNano(), JournalId: e.Recorded.Entry,
		CpuMs: e.CPU.Milliseconds(), PeakMemoryBytes: e.PeakMemory, MoreLeftOut: int64(e.Recorded.MoreLeftOut),
	}
	for _, p := range e.Recorded.LeftOut {
		pb.LeftOut = append(pb.LeftOut, "/"+printable(review.Path(p)))
	}
	for _, p := range e.Recorded.Unrecorded {
		pb.Unrecorded = append(pb.Unrecorded, "/"+printable(review.Path(p)))
	}
	if err := e.Recorded.Err; err != nil {
		pb.CheckpointError = fserrpb.Printable(err.Error())
	}
	return pb
}
