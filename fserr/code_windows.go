package fserr

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

var windowsCodes = map[syscall.Errno]Code{
	windows.ERROR_FILE_NOT_FOUND:      ENOENT,
	windows.ERROR_PATH_NOT_FOUND:      ENOENT,
	windows.ERROR_ACCESS_DENIED:       EACCES,
	windows.ERROR_SHARING_VIOLATION:   EBUSY,
	windows.ERROR_FILE_EXISTS:         EEXIST,
	windows.ERROR_ALREADY_EXISTS:      EEXIST,
	windows.ERROR_DIR_NOT_EMPTY:       ENOTEMPTY,
	windows.ERROR_DIRECTORY:           ENOTDIR,
	windows.ERROR_INVALID_NAME:        EINVAL,
	windows.ERROR_DISK_FULL:           ENOSPC,
	windows.ERROR_NOT_SAME_DEVICE:     EXDEV,
	windows.ERROR_TOO_MANY_OPEN_FILES: EMFILE,
	windows.ERROR_PRIVILEGE_NOT_HELD:  EPERM,
	syscall.EISDIR:                    EISDIR,
	syscall.ELOOP:                     ELOOP,
	syscall.ENOTEMPTY:                 ENOTEMPTY,
}

func platformCode(err error) (Code, bool) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return 0, false
	}
	code, ok := windowsCodes[errno]
	return code, ok
}
