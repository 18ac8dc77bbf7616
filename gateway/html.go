package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	parser "golang.org/x/net/html"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxSpliced bounds the documents that something is put into, in bytes. Larger ones are sent as they are.
	maxSpliced = 4 << 20
	// maxInspected is how much of a document is searched for its head and its charset, in bytes. A client that reads slowly holds no more.
	maxInspected = 64 << 10
)

// document is what is known of an HTML file before it is sent.
type document struct {
	// charset is the end of the Content-Type; "" leaves the charset to the browser.
	charset string
	// spliced is the file with what was put into it, and mark distinguishes it from the file; nil if nothing was.
	spliced *spliced
	mark    string
}

// document inspects an HTML file of a size. What the site adds goes only into documents that the user will see, not into what a script fetches.
func (v *visit) document(file io.ReadSeeker, size int64) (document, error) {
	wanted := size <= maxSpliced && (v.site.Options.Base || v.site.Options.LiveReload)
	if wanted {
		v.w.Header().Add("Vary", "Accept, Sec-Fetch-Dest")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxInspected))
	if err != nil {
		return document{}, err
	}
	found := inspect(text)
	doc := document{charset: found.charsetParameter(text, size > int64(len(text)))}
	if !wanted || !v.isDocument() || found.utf16 {
		return doc, nil
	}
	snippet := v.snippet(found.hasBase)
	if snippet == "" {
		return doc, nil
	}
	sum := sha256.Sum256([]byte(snippet))
	doc.mark, doc.spliced = hex.EncodeToString(sum[:4]), &spliced{file: file, size: size, at: int64(found.at), snippet: snippet}
	return doc, nil
}

// spliced reads a file with a snippet at an offset, and otherwise byte for byte as it is.
type spliced struct {
	file    io.ReadSeeker
	size    int64
	at      int64
	snippet string
	off     int64
}

func (s *spliced) length() int64 { return s.size + int64(len(s.snippet)) }

// Seek implements io.Seeker.
func (s *spliced) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += s.off
	case io.SeekEnd:
		off += s.length()
	}
	s.off = off
	return off, nil
}

// Read implements io.Reader.
func (s *spliced) Read(p []byte) (n int, err error) {
	end := s.at + int64(len(s.snippet))
	switch {
	case s.off >= s.at && s.off < end:
		n = copy(p, s.snippet[s.off-s.at:])
	case s.off < s.at:
		if _, err = s.file.Seek(s.off, io.SeekStart); err == nil {
			n, err = s.file.Read(p[:min(int64(len(p)), s.at-s.off)])
		}
	default:
		if _, err = s.file.Seek(s.off-int64(len(s.snippet)), io.SeekStart); err == nil {
			n, err = s.file.Read(p)
		}
	}
	s.off += int64(n)
	return n, err
}

// isDocument reports whether the browser will show what it requests.
func (v *visit) isDocument() bool {
	switch v.r.Header.Get("Sec-Fetch-Dest") {
	case "document", "iframe", "frame", "embed", "object":
		return true
	case "":
		return v.navigates()
	}
	return false
}

// snippet returns what the site adds to documents. It is ASCII, and so means the same in every charset but UTF-16.
func (v *visit) snippet(hasBase bool) string {
	var s string
	if v.site.Options.Base && !hasBase {
		s = `<base href="` + v.prefix + `/">`
	}
	if v.site.Options.LiveReload {
		s += `<script src="` + v.prefix + "/" + ownFolder + "/" + reloadScript + `"></script>`
	}
	return s
}

// inspected is what inspect finds in a document.
type inspected struct {
	// at is where the head begins, as an offset in bytes.
	at int
	// hasBase says that the head has a base element with a URL.
	hasBase bool
	// charset is that of the byte order mark or of a meta element; "" if there is none.
	charset string
	utf16   bool
}

// inspect reads the head of a document. Elements in a template do not count.
func inspect(doc []byte) (found inspected) {
	switch {
	case bytes.HasPrefix(doc, []byte("\xff\xfe")), bytes.HasPrefix(doc, []byte("\xfe\xff")):
		return inspected{utf16: true}
	case bytes.HasPrefix(doc, []byte("\xef\xbb\xbf")):
		found.at, found.charset = 3, "utf-8"
	}
	z := parser.NewTokenizer(bytes.NewReader(doc[found.at:]))
	z.SetMaxBuf(maxSpliced)
	// inHead says that the head has begun, inText that the next text is the content of an element of it.
	offset, templates, inHead, inText := found.at, 0, false, false
	for {
		kind := z.Next()
		raw := z.Raw()
		offset += len(raw)
		switch kind {
		case parser.ErrorToken:
			return found
		case parser.DoctypeToken:
			if !inHead && bytes.HasSuffix(raw, []byte(">")) {
				found.at = offset
			}
		case parser.TextToken:
			if templates == 0 && len(bytes.TrimSpace(raw)) > 0 && !inText {
				return found
			}
			inText = false
		case parser.StartTagToken, parser.SelfClosingTagToken:
			name, more := z.TagName()
			inText = false
			switch element := string(name); element {
			case "template":
				templates++
			case "html", "head":
				if templates == 0 && !inHead {
					found.at, inHead = offset, element == "head"
				}
			case "base", "meta":
				if inHead = true; templates == 0 {
					found.read(element, attributes(z, more))
				}
			case "title", "style", "script", "noscript", "noframes":
				inHead, inText = true, true
			case "link", "bgsound", "basefont":
				inHead = true
			default:
				if templates == 0 {
					return found
				}
			}
		case parser.EndTagToken:
			name, _ := z.TagName()
			inText = false
			switch string(name) {
			case "template":
				templates = max(0, templates-1)
			case "head", "body", "html":
				if templates == 0 {
					return found
				}
			}
		}
	}
}

func attributes(z *parser.Tokenizer, more bool) map[string]string {
	found := map[string]string{}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if _, twice := found[string(key)]; !twice {
			found[string(key)] = string(value)
		}
	}
	return found
}

// read notes what a base or meta element says.
func (f *inspected) read(element string, attributes map[string]string) {
	if _, ok := attributes["href"]; ok && element == "base" {
		f.hasBase = true
	}
	if element != "meta" || f.charset != "" {
		return
	}
	charset := attributes["charset"]
	if _, after, ok := strings.Cut(strings.ToLower(attributes["content"]), "charset="); ok && strings.EqualFold(attributes["http-equiv"], "content-type") {
		charset = cmp.Or(charset, strings.Trim(after, `"' `))
	}
	charset = strings.ToLower(strings.TrimSpace(charset))
	if strings.HasPrefix(charset, "utf-16") {
		charset = "utf-8" // as browsers do: the element itself was read as ASCII
	}
	if strings.Trim(charset, "abcdefghijklmnopqrstuvwxyz0123456789-_:.") == "" {
		f.charset = charset
	}
}

// charsetParameter returns the charset as a parameter of the Content-Type. A document that is UTF-8 and does not say so gets it as well.
// The header makes sure that the snippet does not push a meta element beyond the bytes that browsers search.
func (f inspected) charsetParameter(text []byte, cut bool) string {
	if cut { // perhaps within a character
		for i := 0; i < utf8.UTFMax && len(text) > 0 && !utf8.Valid(text); i++ {
			text = text[:len(text)-1]
		}
	}
	charset := f.charset
	if charset == "" && !f.utf16 && utf8.Valid(text) {
		charset = "utf-8"
	}
	if charset == "" {
		return ""
	}
	return "; charset=" + charset
}

// listed is a name in a listing.
type listed struct {
	Name string `json:"name"`
	// URL is relative to the directory.
	URL  string `json:"url"`
	Type string `json:"type"`
	// Size in bytes, and the time of the last change in ns since the epoch.
	Size    int64 `json:"size"`
	MtimeNs int64 `json:"mtime_ns"`
}

// takesJSON reports whether a listing is sent as JSON, with sizes and times.
func (v *visit) takesJSON() bool {
	return strings.Contains(v.r.Header.Get("Accept"), "application/json")
}

// listing returns a listing and its type: directories first, then by name.
func (v *visit) listing(entries []*ctxfsv1.DirEntry) (text, kind string, err error) {
	list := []listed{}
	for _, e := range entries {
		name := cmp.Or(e.GetName(), string(e.GetRawName()))
		if v.hidden(name) {
			continue
		}
		l := listed{
			Name: strings.ToValidUTF8(name, "\uFFFD"), URL: "./" + url.PathEscape(name), Type: "other",
			Size: e.GetStat().GetSize(), MtimeNs: e.GetStat().GetMtimeNs(),
		}
		switch e.GetType() {
		case ctxfsv1.FileType_FILE_TYPE_FILE:
			l.Type = "file"
		case ctxfsv1.FileType_FILE_TYPE_DIRECTORY:
			l.Type, l.URL = "directory", l.URL+"/"
		case ctxfsv1.FileType_FILE_TYPE_SYMLINK:
			l.Type = "symlink"
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b listed) int {
		switch isDir := a.Type == "directory"; {
		case isDir == (b.Type == "directory"):
			return cmp.Compare(a.Name, b.Name)
		case isDir:
			return -1
		}
		return 1
	})
	if v.takesJSON() {
		data, err := json.Marshal(list)
		return string(data) + "\n", "application/json", err
	}
	var b strings.Builder
	title := html.EscapeString("/" + strings.ToValidUTF8(strings.Join(v.names, "/"), "\uFFFD"))
	fmt.Fprintf(&b, "<!doctype html><meta charset=utf-8><title>%s</title><h1>%s</h1><ul>\n", title, title)
	if len(v.names) > 0 {
		b.WriteString("<li><a href=\"../\">../</a></li>\n")
	}
	for _, l := range list {
		slash := ""
		if l.Type == "directory" {
			slash = "/"
		}
		for _, part := range []string{"<li><a href=\"", html.EscapeString(l.URL), "\">", html.EscapeString(l.Name), slash, "</a></li>\n"} {
			b.WriteString(part)
		}
	}
	b.WriteString("</ul>\n")
	return b.String(), "text/html; charset=utf-8", nil
}
