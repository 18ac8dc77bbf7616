package feed

// inodeOf returns 0: the number of a directory is not known.
func inodeOf(string) uint64 { return 0 }
