package rootfs

import (
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestListingTellsWhatItCannotStat has the attributes of a listed name fail other than by ENOENT.
func TestListingTellsWhatItCannotStat(t *testing.T) {
	d := &linuxDir{rest: []Entry{{Name: "f"}}}
	if got, err := d.take(-1, 1, true); fserr.CodeOf(err) != fserr.EBADF {
		t.Errorf("got %v, %v", got, err)
	}
}
