package review

import "encoding/json"

// pathMap is a map that JSON keeps with the keys of Path.MarshalText: encoding/json does not call it for keys that are strings.
type pathMap[V any] map[Path]V

// MarshalJSON implements json.Marshaler.
func (m pathMap[V]) MarshalJSON() ([]byte, error) {
	out := make(map[string]V, len(m))
	for p, v := range m {
		key, err := p.MarshalText()
		if err != nil {
			return nil, err
		}
		out[string(key)] = v
	}
	return json.Marshal(out)
}
