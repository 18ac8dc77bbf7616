package cli

import "github.com/ctxfs/ctxfs/client"

// follow does nothing: a console sends no signal when its size changes.
func (*terminal) follow(*client.Attachment) (stop func()) { return func() {} }
