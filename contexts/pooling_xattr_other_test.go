//go:build !linux

package contexts

import "testing"

func setPoolXattr(testing.TB, string, string) {}

func poolXattrs(testing.TB, string) string { return "" }
