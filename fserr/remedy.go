package fserr

// remedies are what can be done about what the machine refuses. Errors that know better say so in their Hint.
var remedies = map[Code]string{
	ENOSPC: "the server's disk is full: delete files or contexts, or have its operator free some space",
	EROFS:  "the server's disk is read-only: its operator must make it writable again",
	EMFILE: "the server has no descriptors left: close files, or have its operator raise RLIMIT_NOFILE",
	ENFILE: "the server's machine has no descriptors left: close files, or have its operator raise fs.file-max",
	EIO:    "the server's disk may be failing: its operator finds more in the logs of the kernel and of ctxfs",
}

// WithRemedy returns e with the Hint that its Code alone suggests; e itself when it has one, or there is none to give.
func (e *Error) WithRemedy() *Error {
	remedy := remedies[e.Code]
	if e.Hint != "" || remedy == "" {
		return e
	}
	with := *e
	with.Hint = remedy
	return &with
}
