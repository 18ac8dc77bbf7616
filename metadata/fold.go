package metadata

import "strings"

// Fold returns the form under which two IDs conflict: they differ only by case
// when their folded forms are equal. Folders named by IDs may come to stand on a
// file system that ignores case, where both would be one folder.
func Fold(id string) string { return strings.ToLower(id) }
