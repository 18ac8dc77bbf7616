package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// maxBatchFile bounds the file of a batch, in bytes. Content in base64 or with escapes is longer than in a request.
const maxBatchFile = 64 << 20

func (a *app) batchCommand() *cobra.Command {
	var o client.BatchOptions
	cmd := &cobra.Command{
		Use: "batch FILE", Short: "Carry out several changes, all of them or none; FILE may be - for standard input",
		Long: "Reads a JSON list of steps, and carries them out in order: all of them, or none. A step has one of these members:\n\n" +
			"  {\"writeFile\": {\"path\": \"a.txt\", \"text\": \"...\"}}     or \"data\" in base64; \"modeOctal\"\n" +
			"  {\"editFile\": {\"path\": \"a.txt\", \"edits\": [{\"oldText\": \"x\", \"newText\": \"y\"}]}}\n" +
			"  {\"mkdir\": {\"path\": \"d\", \"recursive\": true}}\n" +
			"  {\"rm\": {\"path\": \"d\", \"recursive\": true, \"force\": true}}\n" +
			"  {\"rename\": {\"path\": \"a.txt\", \"dest\": \"b.txt\"}}\n" +
			"  {\"copyFile\": {\"path\": \"a.txt\", \"dest\": \"b.txt\"}}\n" +
			"  {\"symlink\": {\"target\": \"a.txt\", \"path\": \"l\"}}\n" +
			"  {\"chmod\": {\"path\": \"run.sh\", \"modeOctal\": \"755\"}}\n\n" +
			"With \"ifMatch\": ETAG or \"ifNoneMatch\": \"*\" a step requires what is at its path before the batch.\n" +
			"If a step fails nothing is changed, and the error names the step, from steps[0].",
		Args: usage(cobra.ExactArgs(1)),
		RunE: a.withFS(func(f *client.FS, args []string) error {
			req, err := a.batchFile(args[0])
			if err != nil {
				return err
			}
			req.DryRun, req.Flush = o.DryRun, o.Flush
			done, err := f.BatchOf(req)
			if err != nil {
				return err
			}
			return a.printBatch(done, len(req.GetSteps()), o.DryRun)
		}),
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "change nothing, and print what would change as a diff")
	cmd.Flags().BoolVar(&o.Flush, "flush", false, "flush the contents to the disk before the changes")
	return cmd
}

// batchFile reads the steps.
func (a *app) batchFile(name string) (*ctxfsv1.BatchRequest, error) {
	in := a.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxBatchFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxBatchFile:
		return nil, fmt.Errorf("%s has more than %s: upload large files by 'ctxfs put'", show(name), size(maxBatchFile))
	}
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
		data = bytes.Join([][]byte{[]byte(`{"steps":`), data, []byte("}")}, nil)
	}
	req := &ctxfsv1.BatchRequest{}
	if err := protojson.Unmarshal(data, req); err != nil {
		return nil, usagef("%s is no list of steps: %v; see 'ctxfs batch --help'", show(name), err)
	}
	if req.GetContextId() != "" {
		return nil, usagef("%s names a context_id: name the context with -c ID", show(name))
	}
	return req, nil
}

func (a *app) printBatch(done client.Batched, steps int, dryRun bool) error {
	switch {
	case a.json:
		return a.printJSON(object{{"steps", steps}, {"dryRun", dryRun}, {"bytes", done.Bytes}, {"etags", append([]string{}, done.ETags...)}, {"diff", done.Diff}, {"diffTruncated", done.DiffCut}})
	case !dryRun:
		return a.printf("steps carried out: %s, %s\n", number(int64(steps)), size(done.Bytes))
	}
	_, err := io.WriteString(a.patchWriter(), done.Diff)
	if done.DiffCut {
		err = errors.Join(err, &fserr.Error{Code: fserr.EFBIG, Detail: "the diff is longer: this is its first MiB"})
	}
	return err
}
