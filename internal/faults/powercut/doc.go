// Package powercut is a disk for tests of what survives a power failure. It is a FUSE file system that keeps in memory what programs write and
// what is on its medium. At a cut it forgets, by seeded random choice, some of what was not flushed:
//   - fsync of a file flushes its content, size and attributes, not its name. Of what was not flushed each page, the size and the attributes
//     survive independently: a size may survive without the content, as zeros.
//   - fsync of a directory flushes its names, not its own name. Of what was not flushed each operation (create, mkdir, link, rename,
//     exchange, unlink) survives as a whole or not at all, and only with the earlier ones on the same names. The content of what has a name
//     may be lost, as after a rename without fsync.
//   - syncfs flushes nothing: the kernel does not send it to FUSE file systems.
//
// A cut chooses what share of each survives, and whether names survive in their order, as in ext4 and XFS, or in any, as POSIX permits.
//
// NewBlocks puts an ext4 on a file of the disk, through a loop device: then blocks are forgotten that the device was not asked to flush.
package powercut
