//go:build ignore

// Sbom writes a CycloneDX bill of materials of a Go binary, from what the linker stored in it: the modules that were compiled,
// with their versions and checksums.
//
//	go run ./scripts/sbom.go dist/ctxfs ctxfs.cdx.json
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strings"
)

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

type bom struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Serial   string `json:"serialNumber"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: sbom BINARY DOCUMENT")
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		log.Fatalf("sbom: %v", err)
	}
}

func write(binary, document string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1}
	// The number is of the binary, so that a second build writes the same document.
	b.Serial = uuid(sum)
	b.Metadata.Component = component{
		Ref: "ctxfs", Type: "application", Name: info.Main.Path, Version: os.Getenv("CTXFS_VERSION"),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Properties: settings(info.Settings),
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = []component{{Ref: "std", Type: "library", Name: "std", Version: goVersion, PURL: "pkg:golang/std@" + goVersion}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		c := component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}} // of the module's files, as in go.sum
		}
		b.Components = append(b.Components, c)
	}
	refs := make([]string, len(b.Components))
	for i, c := range b.Components {
		refs[i] = c.Ref
	}
	b.Dependencies = []dependency{{Ref: "ctxfs", DependsOn: refs}}
	out, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(document, append(out, '\n'), 0o644)
}

// uuid makes a version 8 UUID (RFC 9562) of a checksum.
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func settings(list []debug.BuildSetting) []property {
	var out []property
	for _, s := range list {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" {
			out = append(out, property{"ctxfs:build:" + s.Key, s.Value})
		}
	}
	return out
}
