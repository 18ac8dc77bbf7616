package fsservice

import "testing"

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, bytes, text string
		lossy             bool
	}{
		{"utf8", "h\u00e9", "h\u00e9", false},
		{"UTF-8", "a\xffb", "a\uFFFDb", true},
		{"utf16le", "h\x00\xe9\x00", "h\u00e9", false},
		{"ucs2", "h\x00\xe9", "h", true},
		{"utf-16le", "\x00\xd8", "\uFFFD", true},
		{"latin1", "\xe9\x00", "\u00e9\x00", false},
		{"binary", "\xff", "\u00ff", false},
		{"ascii", "a\xe9", "ai", true},
		{"hex", "\x00\xff", "00ff", false},
		{"base64", "\xfb\xff", "+/8=", false},
		{"base64url", "\xfb\xff", "-_8", false},
	} {
		enc, err := encodingOf(tc.name)
		if err != nil {
			t.Fatal(err)
		}
		text, lossy := enc.decode([]byte(tc.bytes))
		if text != tc.text || lossy != tc.lossy {
			t.Errorf("%s of %q: %q, lossy %v; want %q, %v", tc.name, tc.bytes, text, lossy, tc.text, tc.lossy)
		}
		if back := enc.encode(text); !lossy && string(back) != tc.bytes {
			t.Errorf("%s of %q gives %q back", tc.name, tc.bytes, back)
		}
	}
}

// The wanted bytes are what Buffer.from(text, encoding) gives in Node 22.
func TestEncodeIsAsLenientAsNode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, bytes string }{
		{"hex", "00fg11", "\x00"},
		{"hex", "abc", "\xab"},
		{"base64", "-_8", "\xfb\xff"},
		{"base64", "aGk=\nignored", "hi"},
		{"base64", "a G\nk", "hi"},
		{"base64", "aGkab", "hi\x1a"},
		{"base64url", "+/8=", "\xfb\xff"},
		{"latin1", "\u0101", "\x01"},
		{"ascii", "\u00e9", "\xe9"},
	} {
		enc, err := encodingOf(tc.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := enc.encode(tc.text); string(got) != tc.bytes {
			t.Errorf("%s of %q: %q, want %q", tc.name, tc.text, got, tc.bytes)
		}
	}
}

func FuzzEncodings(f *testing.F) {
	f.Add("utf8", []byte("a\xff"), "x=")
	f.Fuzz(func(t *testing.T, name string, data []byte, text string) {
		enc, err := encodingOf(name)
		if err != nil {
			t.Skip("no encoding of Node's")
		}
		got, lossy := enc.decode(data)
		if back := enc.encode(got); !lossy && string(back) != string(data) {
			t.Errorf("%s: %q became %q", name, data, back)
		}
		enc.encode(text)
	})
}
