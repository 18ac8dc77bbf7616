// Package history shows that ctxfs makes of real commits and merges what git makes of them. It has tests alone: they take commits and merges of
// public repositories, repeat each through a server and its client, on both drivers, and compare the result with git's, path by path.
//
// TestHistory says which repositories it needs, and how it compares.
package history
