package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// show gives a name as it may be printed: quoted when it could confuse a terminal or its reader.
func show(name string) string {
	if name == printable(name) && utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}

// printable replaces what a terminal might obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// number groups digits: 4,312.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// files gives a number of files for people: 1 file, 4,312 files.
func files(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return number(n) + " files"
}

func repositories(n int) string {
	if n == 1 {
		return "1 repository"
	}
	return number(int64(n)) + " repositories"
}

// size gives bytes for people: 61 MiB.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if v < 10 {
		return fmt.Sprintf("%.1f %ciB", v, units[u])
	}
	return fmt.Sprintf("%.0f %ciB", v, units[u])
}

// clock gives a time for people; "" for none.
func clock(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).Format("2006-01-02 15:04:05")
}

// printf writes to standard output.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.env.Stdout, format, args...)
	return err
}

// table prints rows under a head.
func (a *app) table(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		if row == nil {
			continue
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// printJSON prints any value, indented.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.env.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printLine prints a value as JSON in one line, for streams.
func (a *app) printLine(v any) error {
	enc := json.NewEncoder(a.env.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printProto prints a message as JSON (see jsonOf).
func (a *app) printProto(m proto.Message) error { return a.printJSON(jsonOf(m.ProtoReflect())) }

// printProtos prints messages as a JSON array.
func printProtos[M proto.Message](a *app, ms []M) error { return a.printJSON(jsonOfAll(ms)) }

func jsonOfAll[M proto.Message](ms []M) []any {
	list := make([]any, len(ms))
	for i, m := range ms {
		list[i] = jsonOf(m.ProtoReflect())
	}
	return list
}

// member is a key of an object, and its value.
type member struct {
	key   string
	value any
}

// object is a JSON object whose keys keep their order.
type object []member

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	sep := byte('{')
	for _, m := range o {
		buf.WriteByte(sep)
		sep = ','
		if err := enc.Encode(m.key); err != nil {
			return nil, err
		}
		buf.WriteByte(':')
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	if sep == '{' {
		buf.WriteByte('{')
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// jsonOf is a message in the form that docs/reference/cli-json.md describes: keys as in the protos' JSON, none left out; numbers as numbers;
// times, whose fields end in _ns, as RFC 3339, or null if not known; enums in lower case without the type's name.
func jsonOf(m protoreflect.Message) object {
	var o object
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		key, v := f.JSONName(), m.Get(f)
		switch name, isTime := strings.CutSuffix(key, "Ns"); {
		case f.IsList():
			list := make([]any, v.List().Len())
			for j := range list {
				list[j] = jsonValue(f, v.List().Get(j))
			}
			o = append(o, member{key, list})
		case f.IsMap():
			set := map[string]any{} // its keys are sorted when it is printed
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				set[k.String()] = jsonValue(f.MapValue(), v)
				return true
			})
			o = append(o, member{key, set})
		case isTime:
			o = append(o, member{name, timeJSON(v.Int(), m.Descriptor().Name() == "Stat")})
		case f.HasPresence() && !m.Has(f):
			o = append(o, member{key, nil})
		default:
			o = append(o, member{key, jsonValue(f, v)})
		}
	}
	return o
}

func jsonValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return jsonOf(v.Message())
	case protoreflect.BytesKind:
		return append([]byte{}, v.Bytes()...) // nil would be null
	case protoreflect.EnumKind:
		prefix := strings.TrimSuffix(string(f.Enum().Values().Get(0).Name()), "UNSPECIFIED")
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return strings.ToLower(strings.TrimPrefix(string(e.Name()), prefix))
		}
	}
	return v.Interface()
}

// timeJSON is a time in ns since the epoch as RFC 3339; nil for 0, unless that is a time like any other.
func timeJSON(ns int64, epoch bool) any {
	if ns == 0 && !epoch {
		return nil
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
}

// writeProto prints a message as other programs do (protojson), without its deliberately unstable spacing.
func writeProto(w io.Writer, m proto.Message, indent bool) error {
	data, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if indent {
		err = json.Indent(&buf, data, "", "  ")
	} else {
		err = json.Compact(&buf, data)
	}
	if err != nil {
		return err
	}
	buf.WriteByte('\n')
	_, err = buf.WriteTo(w)
	return err
}
