package fsservice

import (
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// fileType maps a type; rootfs and the wire number them alike.
func fileType(t rootfs.Type) ctxfsv1.FileType { return ctxfsv1.FileType(t) }

func wireStat(st rootfs.Stat) *ctxfsv1.Stat {
	return &ctxfsv1.Stat{
		Type: fileType(st.Type()), Dev: st.Dev, Ino: st.Ino, Mode: st.Mode, Nlink: st.Nlink,
		Uid: st.UID, Gid: st.GID, Rdev: st.Rdev, Size: st.Size, Blksize: st.Blksize, Blocks: st.Blocks,
		AtimeNs: st.AtimeNs, MtimeNs: st.MtimeNs, CtimeNs: st.CtimeNs, BirthtimeNs: st.BirthtimeNs,
	}
}

// absolute writes path from the root, without "." and empty components. ".."
// stays: what it means is known only after links are followed.
func absolute(path string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			b.WriteByte('/')
			b.WriteString(part)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// under joins a relative path to an absolute directory.
func under(dir, rel string) string {
	switch {
	case rel == "":
		return dir
	case dir == "/":
		return "/" + rel
	}
	return dir + "/" + rel
}
