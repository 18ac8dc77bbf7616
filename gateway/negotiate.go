package gateway

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzhttp/writer/zstdkp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxRanges is how many ranges a request may ask for; one with more gets the whole file.
const maxRanges = 8

// rangesFor returns the value of a Range header for http.ServeContent, from that of a request for content of size bytes; "" means that
// the header is ignored. ServeContent itself answers an empty suffix, and a suffix of an empty file, with a Content-Range that RFC 9110
// does not allow, rejects units that a server must ignore (14.2), and says nothing of the size if a range is malformed (15.5.17).
func rangesFor(header string, size int64) string {
	unit, set, isSet := strings.Cut(header, "=")
	if !isSet || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || size == 0 {
		return ""
	}
	unsatisfiable := fmt.Sprintf("bytes=%d-", size)
	var ranges []string
	asked := 0
	for spec := range strings.SplitSeq(set, ",") {
		if spec = strings.Trim(spec, " \t"); spec == "" {
			continue
		}
		if asked++; asked > maxRanges {
			return ""
		}
		first, last, ok := rangeOf(spec, size)
		if !ok {
			return unsatisfiable
		}
		if first <= last {
			ranges = append(ranges, fmt.Sprintf("%d-%d", first, last))
		}
	}
	switch {
	case asked == 0:
		return ""
	case len(ranges) == 0:
		return unsatisfiable
	}
	return "bytes=" + strings.Join(ranges, ",")
}

// rangeOf returns the first and last position of a range. ok is false for one that is malformed. One that has no byte of the content ends
// before it begins.
func rangeOf(spec string, size int64) (first, last int64, ok bool) {
	from, to, isRange := strings.Cut(spec, "-")
	start, hasStart := position(from)
	end, hasEnd := position(to)
	switch {
	case !isRange, !hasStart && from != "", !hasEnd && to != "", !hasStart && !hasEnd:
		return 0, 0, false
	case !hasStart:
		return size - min(end, size), size - 1, true
	case !hasEnd:
		return start, size - 1, true
	}
	return start, min(end, size-1), true
}

// position reads digits; a number that is too large for an offset is the largest one.
func position(digits string) (n int64, ok bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	return n, true
}

// The content codings that the gateway can apply.
const (
	zstdCoding = "zstd"
	gzipCoding = "gzip"
)

// minCompressed is the size from which text is compressed, in bytes.
const minCompressed = 1 << 10

// isText reports whether content of a type gets smaller by compression.
func isText(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml")
}

// codingFor returns the content coding that a client prefers, from its Accept-Encoding headers; "" means none. Of equal ones zstd is
// taken, and then gzip. A client that refuses everything gets the content as it is (RFC 9110, 12.5.3).
func codingFor(accepted []string) string {
	weights := map[string]float64{}
	for element := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		name, parameters, _ := strings.Cut(element, ";")
		weights[strings.ToLower(strings.TrimSpace(name))] = weightOf(parameters)
	}
	best, coding := weights["identity"], ""
	for _, name := range []string{zstdCoding, gzipCoding} {
		weight, named := weights[name]
		if !named && name == gzipCoding { // "*" is also sent by clients that do not know zstd
			weight = weights["*"]
		}
		if weight > 0 && weight >= best && (coding == "" || weight > best) {
			best, coding = weight, name
		}
	}
	return coding
}

// weightOf returns the q of an element of Accept-Encoding: 1 if there is none, and 0 if it is malformed.
func weightOf(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

// withSuffix returns an ETag for another form of the same content.
func withSuffix(tag, suffix string) string {
	if tag == "" {
		return ""
	}
	return strings.TrimSuffix(tag, `"`) + "-" + suffix + `"`
}

// newEncoder returns a writer that encodes to w. Close ends the content; a writer that is not closed needs nothing.
func newEncoder(coding string, w io.Writer) io.WriteCloser {
	if coding == zstdCoding {
		return zstdkp.NewWriter(w, int(zstd.SpeedFastest))
	}
	return gzkp.NewWriter(w, gzip.DefaultCompression)
}
