package faults

import (
	"errors"
	"os"
	"time"

	"github.com/ctxfs/ctxfs/client"
)

// change is one call that changes something.
type change struct {
	name string
	do   func() error
}

// changes are one of each kind that a panel has, and the host's; h is a handle to write to.
func changes(p *play, f *client.FS, h *client.File) []change {
	ctx, data := p.Context(), []byte(kept)
	return append([]change{
		{name: "writeFile", do: func() error { return f.WriteFile("new", data, 0o644) }},
		{name: "overwrite", do: func() error { return f.WriteFile("kept", data, 0o644) }},
		{name: "write whole", do: func() error { return f.WriteFileAtomic("whole", data, 0o644) }},
		{name: "appendFile", do: func() error { return f.AppendFile("new", data, 0o644) }},
		{name: "writeStream", do: func() error { return stream(f, "streamed", data) }},
		{name: "write to a handle", do: func() error {
			_, err := h.WriteAt(data, 0)
			return err
		}},
		{name: "open to write", do: func() error {
			h, err := f.OpenFile("opened", os.O_RDWR|os.O_CREATE, 0o644)
			if err != nil {
				return err
			}
			return h.Close()
		}},
		{name: "truncate", do: func() error { return f.Truncate("kept", int64(len(kept))) }},
	}, append(nameChanges(f), []change{
		{name: "fork", do: func() error {
			_, err := p.host.Fork(ctx, "ctx_panels~writer", "ctx_fork")
			return err
		}},
		{name: "seed", do: func() error {
			_, err := p.host.EnsureContext(ctx, "ctx_seeded", nil)
			return err
		}},
		{name: "open a panel", do: func() error {
			_, err := p.host.OpenPanel(ctx, "panels/writer")
			return err
		}},
	}...)...)
}

// nameChanges are those of names and attributes.
func nameChanges(f *client.FS) []change {
	return []change{
		{name: "mkdir", do: func() error { return f.Mkdir("dir", 0o755) }},
		{name: "symlink", do: func() error { return f.Symlink("kept", "link") }},
		{name: "link", do: func() error { return f.Link("kept", "hard") }},
		{name: "rename", do: func() error { return errors.Join(f.Rename("app", "moved"), f.Rename("moved", "app")) }},
		{name: "chmod", do: func() error { return f.Chmod("kept", 0o600) }},
		{name: "utimes", do: func() error { return f.Chtimes("kept", time.Unix(1, 0), time.Unix(1, 0)) }},
		{name: "cp", do: func() error {
			_, err := f.Cp("app", "app2", client.CopyOptions{Recursive: true})
			return err
		}},
		{name: "rm", do: func() error { return f.RemoveAll("app") }},
	}
}
