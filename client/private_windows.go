package client

import "io/fs"

// private trusts the access list that the directory inherits from the user's profile.
func private(fs.FileInfo) bool { return true }
