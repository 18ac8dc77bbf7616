package node

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoBirthTime has file systems that keep none say so in two ways.
func TestNoBirthTime(t *testing.T) {
	changed, born := unix.StatxTimestamp{Sec: 7, Nsec: 1}, unix.StatxTimestamp{Sec: 5}
	for name, c := range map[string]struct {
		stat unix.Statx_t
		want int64
	}{
		"kept":             {unix.Statx_t{Mask: StatMask, Ctime: changed, Btime: born}, 5e9},
		"not in the mask":  {unix.Statx_t{Mask: unix.STATX_BASIC_STATS, Ctime: changed, Btime: born}, 7e9 + 1},
		"told as the zero": {unix.Statx_t{Mask: StatMask, Ctime: changed}, 7e9 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			var got Stat
			if FillStat(&got, &c.stat); got.BirthtimeNs != c.want {
				t.Errorf("born at %d, want %d", got.BirthtimeNs, c.want)
			}
		})
	}
}
