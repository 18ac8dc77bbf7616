package peers

import "io"

// bulkChunk is the size of the pieces in which large content is made and taken.
const bulkChunk = 1 << 20

// source is a stream of size bytes that costs nothing to make.
func source(size int64) *io.LimitedReader { return &io.LimitedReader{R: &pattern{}, N: size} }

// pattern gives what its caller's buffer holds already: the content does not matter, and
// filling it would be measured.
type pattern struct{}

// Read implements io.Reader.
func (*pattern) Read(b []byte) (int, error) { return len(b), nil }

// sink counts what it is given.
type sink struct{ n int64 }

// Write implements io.Writer.
func (s *sink) Write(b []byte) (int, error) {
	s.n += int64(len(b))
	return len(b), nil
}

// drain reads r to its end by buf, or by r's own WriteTo.
func drain(r io.Reader, buf []byte) (int64, error) {
	var s sink
	_, err := io.CopyBuffer(&s, r, buf)
	return s.n, err
}
