package fsservice

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is one of Node's, by its first name; "" means bytes.
type encoding string

// encodingOf reads an encoding's name as Buffer.isEncoding does, without regard to case.
func encodingOf(name string) (encoding, error) {
	switch strings.ToLower(name) {
	case "", "buffer":
		return "", nil
	case "utf8", "utf-8":
		return "utf8", nil
	case "utf16le", "utf-16le", "ucs2", "ucs-2":
		return "utf16le", nil
	case "latin1", "binary":
		return "latin1", nil
	case "ascii":
		return "ascii", nil
	case "hex":
		return "hex", nil
	case "base64":
		return "base64", nil
	case "base64url":
		return "base64url", nil
	}
	return "", invalid("unknown encoding %.40q", name)
}

// decode turns a file's bytes into text (Buffer.toString); lossy when encode
// would not give the same bytes back.
func (e encoding) decode(b []byte) (text string, lossy bool) {
	switch e {
	case "utf16le":
		return decodeUTF16(b)
	case "latin1", "ascii":
		return decodeLatin1(b, e == "ascii")
	case "hex":
		return hex.EncodeToString(b), false
	case "base64":
		return base64.StdEncoding.EncodeToString(b), false
	case "base64url":
		return base64.RawURLEncoding.EncodeToString(b), false
	}
	if utf8.Valid(b) {
		return string(b), false
	}
	return replaceInvalid(b), true
}

// replaceInvalid puts a U+FFFD for each invalid byte sequence.
func replaceInvalid(b []byte) string { return string([]rune(string(b))) }

func decodeUTF16(b []byte) (string, bool) {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	text := string(utf16.Decode(units))
	return text, string(encodeUTF16(text)) != string(b)
}

func encodeUTF16(text string) []byte {
	b := make([]byte, 0, 2*len(text))
	for _, u := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// decodeLatin1 maps bytes to U+0000..U+00FF; with strip, to 7 bits as Node's ascii does.
func decodeLatin1(b []byte, strip bool) (string, bool) {
	lossy := false
	runes := make([]rune, len(b))
	for i, c := range b {
		if strip && c >= utf8.RuneSelf {
			lossy = true
			c &= 0x7f
		}
		runes[i] = rune(c)
	}
	return string(runes), lossy
}

// encode turns text into a file's bytes (Buffer.from). As in Node nothing is
// refused: hex stops at the first pair that is none, base64 passes over
// characters that are none of its own.
func (e encoding) encode(text string) []byte {
	switch e {
	case "utf16le":
		return encodeUTF16(text)
	case "latin1", "ascii":
		return encodeLatin1(text)
	case "hex":
		return encodeHex(text)
	case "base64", "base64url":
		return encodeBase64(text)
	}
	return []byte(text)
}

// encodeLatin1 keeps the low byte of each UTF-16 unit.
func encodeLatin1(text string) []byte {
	units := utf16.Encode([]rune(text))
	b := make([]byte, len(units))
	for i, u := range units {
		b[i] = byte(u)
	}
	return b
}

func encodeHex(text string) []byte {
	b := make([]byte, len(text)/2)
	n, _ := hex.Decode(b, []byte(text)[:len(b)*2]) // n counts what came before the error
	return b[:n]
}

func encodeBase64(text string) []byte {
	text, _, _ = strings.Cut(text, "=")
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '-':
			return '+'
		case r == '_':
			return '/'
		case r < utf8.RuneSelf && isBase64(byte(r)):
			return r
		}
		return -1
	}, text)
	if len(clean)%4 == 1 {
		clean = clean[:len(clean)-1]
	}
	b, _ := base64.RawStdEncoding.DecodeString(clean) // every character is valid
	return b
}

func isBase64(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}

// contentRequest carries bytes or text.
type contentRequest interface {
	GetData() []byte
	GetText() string
	GetEncoding() string
}

// contentOf returns what a request asks to write.
func contentOf(req contentRequest) ([]byte, error) {
	enc, err := encodingOf(req.GetEncoding())
	if err != nil {
		return nil, err
	}
	if text := req.GetText(); text != "" {
		return enc.encode(text), nil
	}
	return req.GetData(), nil
}
