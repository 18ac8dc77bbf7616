package peers

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// httpEntry is an entry of a listing, in the form that nginx's autoindex gives.
type httpEntry struct {
	Name  string    `json:"name"`
	Type  string    `json:"type"`
	MTime time.Time `json:"mtime"`
	Size  int64     `json:"size,omitempty"`
}

func serveHTTP(ls []net.Listener, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{name...}", func(w http.ResponseWriter, r *http.Request) { httpGet(w, r, root) })
	mux.HandleFunc("PUT /{name...}", func(w http.ResponseWriter, r *http.Request) { httpAnswer(w, httpPut(r, root)) })
	mux.HandleFunc("DELETE /{name...}", func(w http.ResponseWriter, r *http.Request) {
		httpAnswer(w, root.Remove(r.PathValue("name")))
	})
	return serveHandler(ls, mux)
}

func serveFiles(ls []net.Listener, dir string) error {
	return serveHandler(ls, http.FileServer(http.Dir(dir)))
}

func serveHandler(ls []net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: dialTime}
	var g errgroup.Group
	for _, l := range ls {
		g.Go(func() error { return server.Serve(l) })
	}
	return g.Wait()
}

// httpGet answers GET and HEAD: content and attributes of a file, entries of a directory.
func httpGet(w http.ResponseWriter, r *http.Request, root *os.Root) {
	f, err := root.Open(r.PathValue("name"))
	if err != nil {
		httpAnswer(w, err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		httpAnswer(w, err)
		return
	}
	if !info.IsDir() {
		// Without a type the first 512 bytes would be read to guess one.
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", info.ModTime(), f)
		return
	}
	entries, err := f.Readdir(-1)
	if err != nil {
		httpAnswer(w, err)
		return
	}
	_ = json.NewEncoder(w).Encode(httpEntries(entries)) // fails when the client has left
}

func httpEntries(infos []os.FileInfo) []httpEntry {
	out := make([]httpEntry, 0, len(infos))
	for _, i := range infos {
		e := httpEntry{Name: i.Name(), Type: "file", MTime: i.ModTime(), Size: i.Size()}
		if i.IsDir() {
			e.Type = "directory"
		}
		out = append(out, e)
	}
	return out
}

func httpPut(r *http.Request, root *os.Root) error {
	f, err := root.OpenFile(r.PathValue("name"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r.Body)
	return errors.Join(err, f.Close())
}

func httpAnswer(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, os.ErrNotExist):
		w.WriteHeader(http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}
