package seed

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// guardRemedy names the three ways out.
const guardRemedy = "add them to .contextignore, use --seed-select=unignored, or raise --seed-max-bytes / --seed-max-files"

// Guard refuses (EFBIG) a scan beyond the limits, with the counts, the largest directories and the remedies.
func Guard(s *Scan, opts Options) error {
	opts = opts.WithDefaults()
	if s.Files <= opts.MaxFiles && s.Bytes <= opts.MaxBytes {
		return nil
	}
	byBytes := s.Bytes > opts.MaxBytes
	return &fserr.Error{
		Code: fserr.EFBIG, Hint: guardRemedy,
		Detail: fmt.Sprintf("seed: %s files, %s exceeds %s files / %s. Largest: %s",
			Count(s.Files), Size(s.Bytes), Count(opts.MaxFiles), Size(opts.MaxBytes), largest(s.Dirs, byBytes)),
	}
}

// largest names up to three directories.
func largest(dirs []DirSize, byBytes bool) string {
	var out []string
	for _, d := range topDirs(dirs, byBytes, 3) {
		if byBytes {
			out = append(out, d.Path+" "+Size(d.Bytes))
		} else {
			out = append(out, fmt.Sprintf("%s %s files", d.Path, Count(d.Files)))
		}
	}
	return strings.Join(out, ", ")
}

func topDirs(dirs []DirSize, byBytes bool, n int) []DirSize {
	dirs = append([]DirSize(nil), dirs...)
	if !byBytes {
		sortByFiles(dirs)
	}
	return dirs[:min(n, len(dirs))]
}

// Count formats n with thousands separated: 212,340.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Size formats bytes in binary units: 512 B, 61 MiB, 30.1 GiB.
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), -1
	for f >= 1024 && unit < 4 {
		f /= 1024
		unit++
	}
	text := strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
	return text + " " + string("KMGTP"[unit]) + "iB"
}
