package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	parser "golang.org/x/net/html"

	"github.com/ctxfs/ctxfs/sites"
)

func TestSnippetsGoIntoTheHead(t *testing.T) {
	for name, c := range map[string]struct {
		doc     string // with | where the snippet belongs
		base    bool
		charset string
	}{
		"a head":                         {"<!doctype html><html><head>|<title>t</title></head>", false, "; charset=utf-8"},
		"a head with attributes":         {"<html><HEAD lang=en data-x='>'>|<title>t</title>", false, "; charset=utf-8"},
		"a head in a comment":            {"<!-- <head> --><!DOCTYPE html>|<title>t</title>", false, "; charset=utf-8"},
		"a head in a script":             {"<!doctype html>|<script>'<head>'</script><p>", false, "; charset=utf-8"},
		"a head in a template":           {"<!doctype html>|<template><head></template><p>", false, "; charset=utf-8"},
		"no head":                        {"<!doctype html><html lang=en>|<p>text", false, "; charset=utf-8"},
		"text":                           {"|just text", false, "; charset=utf-8"},
		"nothing":                        {"|", false, "; charset=utf-8"},
		"a byte order mark":              {"\xef\xbb\xbf|text", false, "; charset=utf-8"},
		"a byte order mark and a type":   {"\xef\xbb\xbf<!doctype html>|<p>", false, "; charset=utf-8"},
		"a head after the body":          {"|<p>text<head>", false, "; charset=utf-8"},
		"a head after text":              {"|text<head>", false, "; charset=utf-8"},
		"a base":                         {"<head>|<base href=/x/></head>", true, "; charset=utf-8"},
		"a base without URL":             {"<head>|<base target=_top></head>", false, "; charset=utf-8"},
		"a base in a template":           {"<head>|<template><base href=/x/></template></head>", false, "; charset=utf-8"},
		"a base in a drawing":            {"<head>|</head><body><svg><base href=/x/>", false, "; charset=utf-8"},
		"a base after a title":           {"<head>|<title><base href=/no/></title><base href=/x/>", true, "; charset=utf-8"},
		"a charset":                      {"<head>|<meta charset='ISO-8859-1'><p>\xe4", false, "; charset=iso-8859-1"},
		"a charset of old":               {"<head>|<meta http-equiv=Content-Type content='text/html; charset=windows-1252'>\xe4", false, "; charset=windows-1252"},
		"a charset that cannot be":       {"<head>|<meta charset=utf-16>", false, "; charset=utf-8"},
		"a charset with a further line":  {"<head>|<meta charset='x\r\nSet-Cookie: a'>", false, "; charset=utf-8"},
		"not UTF-8":                      {"<head>|\xff\xe4", false, ""},
		"a broken tag":                   {"<html>|<head", false, "; charset=utf-8"},
		"a type that does not end":       {"|<!doctype", false, "; charset=utf-8"},
		"NUL":                            {"<html>|\x00<head>", false, "; charset=utf-8"},
		"the description of a document":  {"<?xml version='1.0'?><!doctype html><html><head>|<p>", false, "; charset=utf-8"},
		"a link before the head element": {"<!doctype html>|<link rel=x><base href=/x/><p>", true, "; charset=utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			doc := strings.Replace(c.doc, "|", "", 1)
			found := inspect([]byte(doc))
			if want := strings.Index(c.doc, "|"); want >= 0 && found.at != want || found.hasBase != c.base {
				t.Errorf("at %d (%q), base %v", found.at, doc[:found.at], found.hasBase)
			}
			if got := found.charsetParameter([]byte(doc), false); got != c.charset {
				t.Errorf("charset %q, want %q", got, c.charset)
			}
		})
	}
	if found := inspect([]byte("\xff\xfe<\x00h\x00")); !found.utf16 || found.charsetParameter(nil, false) != "" {
		t.Errorf("UTF-16: %+v", found)
	}
}

// maxParsed bounds what runs parses: the parser's time grows with the square of the depth.
const maxParsed = 1 << 10

// runs reports whether a document has a script with a source that browsers run.
func runs(doc []byte, source string) bool {
	root, err := parser.Parse(bytes.NewReader(doc))
	if err != nil {
		return false
	}
	for n := range root.Descendants() { // the content of a template is not among them
		if n.Type == parser.ElementNode && n.Data == "script" && n.Namespace == "" && slices.Contains(n.Attr, parser.Attribute{Key: "src", Val: source}) {
			return true
		}
	}
	return false
}

// FuzzInspect checks that the place for a snippet is in the document and not within a tag, and that the charset is a token.
func FuzzInspect(f *testing.F) {
	for _, doc := range []string{
		documentSeed, "<head", "<!-- <head>", "\xef\xbb\xbf<html>", "<template><head>", "<meta charset=x>", "text<head>", "<head a='>", "<svg><base href=x>", "<!docType",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := bytes.Clone(doc)
		found := inspect(doc)
		if found.at < 0 || found.at > len(doc) || !bytes.Equal(doc, before) {
			t.Fatalf("at %d of %d", found.at, len(doc))
		}
		if found.at > 0 && doc[found.at-1] != '>' && !bytes.Equal(doc[:found.at], []byte("\xef\xbb\xbf")) {
			t.Errorf("within a tag: %q", doc[:found.at])
		}
		if p := found.charsetParameter(doc, false); strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789-_:.;= ") != "" {
			t.Errorf("charset %q", p)
		}
		whole, err := io.ReadAll(iotest.HalfReader(&spliced{file: bytes.NewReader(doc), size: int64(len(doc)), at: int64(found.at), snippet: `<script src="/snippet.js"></script>`}))
		if err != nil || len(doc) <= maxParsed && !runs(whole, "/snippet.js") {
			t.Errorf("browsers do not run the snippet of %q", doc)
		}
		whole, err = io.ReadAll(iotest.HalfReader(&spliced{file: bytes.NewReader(doc), size: int64(len(doc)), at: int64(found.at), snippet: "<base>"}))
		if err != nil || !bytes.Equal(bytes.Replace(whole[found.at:], []byte("<base>"), nil, 1), doc[found.at:]) || !bytes.Equal(whole[:found.at], doc[:found.at]) {
			t.Errorf("without the snippet it is another document")
		}
	})
}

const documentSeed = "<!doctype html><html lang=en><head><meta charset=utf-8><title>t</title></head><body></body></html>"

// FuzzDocument inspects documents as requests do: of a larger one only the first part. What is sent is the document, with the snippet at a
// place that was looked at, and the document as it is if it is UTF-16 or no browser will show it.
func FuzzDocument(f *testing.F) {
	for _, doc := range []string{documentSeed, "", "<head", "\xff\xfe<\x00h\x00e\x00a\x00d\x00>\x00", "\xfe\xff\x00<", "\xef\xbb\xbf<html>", "<!doctype html><title>\xc3\xa9</title>", "<meta charset=utf-16>"} {
		for _, pad := range []int{0, maxInspected - len(doc) - 1, maxInspected - len(doc)/2, maxInspected} {
			f.Add([]byte(doc), uint32(max(0, pad)), "document")
		}
		f.Add([]byte(doc), uint32(maxSpliced), "iframe")
		f.Add([]byte(doc), uint32(0), "script")
	}
	f.Fuzz(func(t *testing.T, doc []byte, pad uint32, dest string) {
		more := int(pad % (maxInspected + 2))
		if pad == maxSpliced {
			more = maxSpliced
		}
		whole := append(bytes.Repeat([]byte(" "), more), doc...) // documents may begin with spaces
		if pad%2 == 1 {
			whole = append(bytes.Clone(doc), bytes.Repeat([]byte("\xc3\xa9"), more/2)...)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Sec-Fetch-Dest", dest)
		w := httptest.NewRecorder()
		v := &visit{g: &Gateway{}, w: w, r: r, site: sites.Site{Options: sites.Options{Base: true, LiveReload: true}}}
		got, err := v.document(bytes.NewReader(whole), int64(len(whole)))
		if err != nil {
			t.Fatal(err)
		}
		shown, utf16 := dest == "document" || dest == "iframe" || dest == "frame" || dest == "embed" || dest == "object", isUTF16(whole)
		if want := shown && !utf16 && len(whole) <= maxSpliced; (got.spliced != nil) != want && dest != "" {
			t.Fatalf("%d bytes for %q, UTF-16 %v: spliced %v", len(whole), dest, utf16, got.spliced != nil)
		}
		if utf16 && got.charset != "" || strings.Trim(got.charset, "abcdefghijklmnopqrstuvwxyz0123456789-_:.;= ") != "" {
			t.Errorf("charset %q", got.charset)
		}
		if got.charset == "; charset=utf-8" && len(whole) <= maxInspected && !utf8.Valid(whole) && !bytes.Contains(bytes.ToLower(whole), []byte("utf-")) && !bytes.HasPrefix(whole, []byte("\xef\xbb\xbf")) {
			t.Errorf("%.80q is said to be UTF-8", whole)
		}
		if got.spliced == nil {
			return
		}
		sent, err := io.ReadAll(iotest.HalfReader(got.spliced))
		at, snippet := int(got.spliced.at), got.spliced.snippet
		if err != nil || int64(len(sent)) != got.spliced.length() || at > min(len(whole), maxInspected) || string(sent[at:at+len(snippet)]) != snippet {
			t.Fatalf("%d bytes of %d, %v, the snippet at %d", len(sent), got.spliced.length(), err, at)
		}
		if !bytes.Equal(slices.Delete(sent, at, at+len(snippet)), whole) {
			t.Errorf("without the snippet it is another document")
		}
	})
}

func isUTF16(doc []byte) bool {
	return bytes.HasPrefix(doc, []byte("\xff\xfe")) || bytes.HasPrefix(doc, []byte("\xfe\xff"))
}
