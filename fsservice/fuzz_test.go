package fsservice

import (
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// FuzzFlags looks for flags and modes that are accepted and mean what they should not.
func FuzzFlags(f *testing.F) {
	for _, s := range []string{"r", "r+", "rs+", "w", "wx", "wx+", "a", "ax", "as+", "", "x", "0644", "7777", "-1", "100644", "0o777", "w\x00"} {
		f.Add(s, int32(0o102))
		f.Add(s, int32(-1))
	}
	f.Add("rw", int32(3))
	f.Fuzz(func(t *testing.T, text string, number int32) {
		for _, got := range []func() (openFlags, error){
			func() (openFlags, error) { return flagsOf(&ctxfsv1.OpenRequest_Flags{Flags: text}, "r") },
			func() (openFlags, error) { return flagsOf(&ctxfsv1.OpenRequest_FlagsNumber{FlagsNumber: number}, "r") },
		} {
			flags, err := got()
			switch {
			case err != nil && fserr.CodeOf(err) != fserr.EINVAL:
				t.Errorf("%q, %d: %v", text, number, err)
			case err == nil && (flags.Flags&^knownFlags != 0 || flags.Flags&rootfs.O_ACCMODE == rootfs.O_ACCMODE):
				t.Errorf("%q, %d: %#o was accepted", text, number, flags.Flags)
			}
		}
		mode, _, err := modeOf(&ctxfsv1.OpenRequest_ModeOctal{ModeOctal: text})
		if err == nil && mode&^0o7777 != 0 {
			t.Errorf("mode %q is %#o", text, mode)
		}
		if n := uint32(number); err == nil {
			if mode, _, err = modeOf(&ctxfsv1.OpenRequest_Mode{Mode: n}); err == nil && (mode&^0o7777 != 0 || n&^0o177777 != 0) {
				t.Errorf("mode %#o is %#o", n, mode)
			}
		}
	})
}
