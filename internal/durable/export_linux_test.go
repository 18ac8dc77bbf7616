package durable

// Few is few.
const Few = few

// SetUnwritten replaces unwritten, and returns what puts it back.
func SetUnwritten(f func() int64) (restore func()) {
	was := unwritten
	unwritten = f
	return func() { unwritten = was }
}

// Unwritten is unwritten.
func Unwritten() int64 { return unwritten() }
