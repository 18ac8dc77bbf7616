package fsservice

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// etagOf returns the validator of a file in a context of that generation; "" when its attributes are not known. A change always changes
// ctime, which no program can set, and a rename over a file changes the inode. Two changes within one tick of the kernel's clock have one
// ctime before Linux 6.13: see advance.
func etagOf(generation uint64, st rootfs.Stat) string {
	if st.Ino == 0 {
		return ""
	}
	var b [48]byte
	for i, n := range []uint64{generation, st.Dev, st.Ino, uint64(st.Size), uint64(st.MtimeNs), uint64(st.CtimeNs)} {
		binary.LittleEndian.PutUint64(b[8*i:], n)
	}
	sum := sha256.Sum256(b[:])
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}

// advance makes the etag of f, which was changed, differ from all that the file had before. st has the attributes after the change, and
// before those under the same lock. If the clock has not moved since, the modification time gets a nanosecond more than it had, unless the
// file belongs to another user. advance returns the attributes that f has then.
func advance(f rootfs.File, before, st rootfs.Stat) rootfs.Stat {
	if st.CtimeNs > before.CtimeNs || f.Utimes(st.AtimeNs, max(st.MtimeNs, before.MtimeNs)+1) != nil {
		return st
	}
	if now, err := f.Stat(); err == nil {
		return now
	}
	return st
}

// ETag returns the validator of the file as it was when it was opened. That of a snapshot leaves out the device, which is another one each
// time that the snapshot is mounted.
func (c *Content) ETag(snapshot bool) string {
	st := c.st
	if snapshot {
		st.Dev = 0
	}
	return etagOf(c.src.generation, st)
}
