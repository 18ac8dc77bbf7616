package contexts

import "github.com/ctxfs/ctxfs/fserr"

// renameExchange would swap two directories in one step, which Windows cannot.
func renameExchange(string, string) error { return fserr.EOPNOTSUPP }
