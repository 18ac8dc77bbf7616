package server

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Origins says for every key of Config where its value came from: "default",
// "file PATH", "env NAME" or "flag --NAME".
type Origins map[string]string

// Setting is one line of `ctxfs config`.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Settings lists all keys in the order of Config, with their values and origins. A password in a URL is not told.
func (c Config) Settings(origins Origins) []Setting {
	var list []Setting
	if u, err := url.Parse(c.GitBase); err == nil {
		c.GitBase = u.Redacted()
	}
	v := reflect.ValueOf(c)
	for i, key := range configKeys() {
		list = append(list, Setting{Key: key, Value: v.Field(i).Interface(), Origin: origins[key]})
	}
	return list
}

func configKeys() []string {
	t := reflect.TypeFor[Config]()
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = t.Field(i).Tag.Get("koanf")
	}
	return keys
}

// LoadConfig merges the settings: flags that were given, before environ (as of
// os.Environ), before the YAML file ("" for none), before the defaults. A key of
// the file that is not known, or a value that cannot be read, is a *ConfigError
// naming its origin. flags may be nil.
func LoadConfig(flags *pflag.FlagSet, environ []string, path string) (Config, Origins, error) {
	origins := Origins{}
	for _, key := range configKeys() {
		origins[key] = "default"
	}
	k := koanf.New(".")
	for _, load := range []func(*koanf.Koanf, Origins) error{
		func(k *koanf.Koanf, o Origins) error { return loadFile(k, o, path) },
		func(k *koanf.Koanf, o Origins) error { return loadEnv(k, o, environ) },
		func(k *koanf.Koanf, o Origins) error { return loadFlags(k, o, flags) },
	} {
		if err := load(k, origins); err != nil {
			return Config{}, nil, err
		}
	}
	cfg, err := decode(k, origins)
	if err != nil {
		return Config{}, nil, err
	}
	return cfg, origins, cfg.Validate(origins)
}

func loadFile(k *koanf.Koanf, origins Origins, path string) error {
	if path == "" {
		return nil
	}
	read := koanf.New(".")
	if err := read.Load(file.Provider(path), yaml.Parser()); err != nil {
		return &ConfigError{Origin: "file " + path, Problem: err.Error()}
	}
	known := configKeys()
	for key := range read.Raw() {
		if !slices.Contains(known, key) {
			return &ConfigError{Origin: "file " + path, Key: key, Problem: "unknown key; known are " + strings.Join(known, ", ")}
		}
		origins[key] = "file " + path
	}
	return k.Merge(read)
}

// loadEnv takes known names only: CTXFS_ADDRESS, CTXFS_TOKEN and others are the clients'.
func loadEnv(k *koanf.Koanf, origins Origins, environ []string) error {
	values := map[string]any{}
	for _, key := range configKeys() {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, envOf(key)+"="); ok {
				values[key], origins[key] = value, "env "+envOf(key)
			}
		}
	}
	return k.Load(confmap.Provider(values, ""), nil)
}

func loadFlags(k *koanf.Koanf, origins Origins, flags *pflag.FlagSet) error {
	if flags == nil {
		return nil
	}
	values := map[string]any{}
	for _, key := range configKeys() {
		f := flags.Lookup(flagOf(key))
		if f == nil || !f.Changed {
			continue
		}
		origins[key] = "flag --" + f.Name
		values[key] = f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values[key] = list.GetSlice()
		}
	}
	return k.Load(confmap.Provider(values, ""), nil)
}

// decode reads key by key, so that a bad value is told with its origin.
func decode(k *koanf.Koanf, origins Origins) (Config, error) {
	cfg := DefaultConfig()
	v := reflect.ValueOf(&cfg).Elem()
	for i, key := range configKeys() {
		if !k.Exists(key) {
			continue
		}
		d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
			Result: v.Field(i).Addr().Interface(), WeaklyTypedInput: true,
			DecodeHook: mapstructure.ComposeDecodeHookFunc(
				mapstructure.StringToTimeDurationHookFunc(), splitList, mapstructure.TextUnmarshallerHookFunc()),
		})
		if err == nil {
			err = d.Decode(k.Get(key))
		}
		if err != nil {
			return Config{}, &ConfigError{Origin: origins[key], Key: key, Problem: fmt.Sprintf("%v cannot be read: %s", k.Get(key), oneLine(err))}
		}
	}
	return cfg, nil
}

// splitList reads "a, b" as a list; "" is an empty one.
func splitList(from, to reflect.Type, data any) (any, error) {
	text, ok := data.(string)
	if !ok || from.Kind() != reflect.String || to.Kind() != reflect.Slice {
		return data, nil
	}
	list := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
