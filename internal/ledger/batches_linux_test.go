package ledger

import (
	"maps"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func batchOperations() []operation { return []operation{{"batch", batchOf}} }

// inBatch plans a step of a batch: what the lane is after it, and the step as the wire has it; nil when it is not possible now.
type inBatch func(l *lane) (after tree, s *ctxfsv1.BatchStep)

var inBatches = []inBatch{batchWrite, batchWriteOver, batchRename, batchRemove, batchMkdir, batchSymlink, batchCopy, batchChmod}

// batchOf plans a batch of up to 8 steps: all of them happen, or none.
func batchOf(l *lane) []step {
	before := l.state
	defer func() { l.state = before }()
	req := &ctxfsv1.BatchRequest{}
	for range 2 + l.rng.IntN(7) {
		if after, s := pick(l, inBatches)(l); s != nil {
			l.state, req.Steps = after, append(req.Steps, s)
		}
	}
	if len(req.GetSteps()) == 0 {
		return nil
	}
	return []step{{name: "batch", after: l.state, do: func() error {
		_, err := l.raw.Batch(l.ctx, req)
		return err
	}}}
}

func batchWrite(l *lane) (tree, *ctxfsv1.BatchStep) {
	at, text, perm := l.free(fileSlots), l.content(), pick(l, filePerms)
	if at == "" {
		return nil, nil
	}
	return l.state.with(at, file(text, perm)), &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_WriteFile{WriteFile: &ctxfsv1.WriteFileRequest{
		Path: l.prefix + "/" + at, ModeForm: &ctxfsv1.WriteFileRequest_Mode{Mode: uint32(perm)}, Content: &ctxfsv1.WriteFileRequest_Text{Text: text},
	}}}
}

func batchWriteOver(l *lane) (tree, *ctxfsv1.BatchStep) {
	at, text := l.one(isFile), l.content()
	if at == "" {
		return nil, nil
	}
	return l.replaced(at, text), &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_WriteFile{WriteFile: &ctxfsv1.WriteFileRequest{
		Path: l.prefix + "/" + at, Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte(text)},
	}}}
}

func batchRename(l *lane) (tree, *ctxfsv1.BatchStep) {
	from, to := l.one(isFile), l.free(fileSlots)
	if l.rng.IntN(2) == 0 {
		from, to = l.one(isDir), l.free(dirSlots)
	}
	if from == "" || to == "" || within(to, from) {
		return nil, nil
	}
	return l.state.moved(from, to), &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rename{Rename: &ctxfsv1.RenameRequest{
		Path: l.prefix + "/" + from, Dest: l.prefix + "/" + to,
	}}}
}

func batchRemove(l *lane) (tree, *ctxfsv1.BatchStep) {
	at := l.one(func(string, node) bool { return true })
	if at == "" {
		return nil, nil
	}
	return l.state.without(at), &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rm{Rm: &ctxfsv1.RmRequest{Path: l.prefix + "/" + at, Recursive: true}}}
}

func batchMkdir(l *lane) (tree, *ctxfsv1.BatchStep) {
	at, perm := l.free(dirSlots), pick(l, dirPerms)
	if at == "" {
		return nil, nil
	}
	return l.state.with(at, dir(perm)), &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Mkdir{Mkdir: &ctxfsv1.MkdirRequest{
		Path: l.prefix + "/" + at, ModeForm: &ctxfsv1.MkdirRequest_Mode{Mode: uint32(perm)},
	}}}
}

func batchSymlink(l *lane) (tree, *ctxfsv1.BatchStep) {
	at := l.free(linkSlots)
	if at == "" {
		return nil, nil
	}
	return l.state.with(at, link("f0")), &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Symlink{Symlink: &ctxfsv1.SymlinkRequest{
		Path: l.prefix + "/" + at, Target: "f0",
	}}}
}

func batchCopy(l *lane) (tree, *ctxfsv1.BatchStep) {
	from, to := l.one(isFile), l.free(fileSlots)
	if from == "" || to == "" {
		return nil, nil
	}
	return l.state.with(to, copied(l.state[from])), &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_CopyFile{CopyFile: &ctxfsv1.CopyFileRequest{
		Path: l.prefix + "/" + from, Dest: l.prefix + "/" + to,
	}}}
}

func batchChmod(l *lane) (tree, *ctxfsv1.BatchStep) {
	at, perm := l.one(func(p string, n node) bool { return isFile(p, n) && n.id == 0 }), pick(l, anyPerms)
	if at == "" {
		return nil, nil
	}
	after := maps.Clone(l.state)
	n := after[at]
	n.perm = perm
	after[at] = n
	return after, &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Chmod{Chmod: &ctxfsv1.ChmodRequest{
		Path: l.prefix + "/" + at, ModeForm: &ctxfsv1.ChmodRequest_Mode{Mode: uint32(perm)},
	}}}
}
