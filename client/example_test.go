package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/server"
)

func Example() {
	workspace, stop := serveExample()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, client.WithDir(workspace)) // without options: from the working directory upwards
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	p, err := c.OpenPanel(ctx, "panels/editor")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.FS().WriteFile("notes.md", []byte("hi"), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	err = fs.WalkDir(p.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		fmt.Println(name, d.IsDir())
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	_, err = p.FS().ReadFile("nope.md")
	fmt.Println(err)
	fmt.Println(errors.Is(err, fs.ErrNotExist), errors.Is(err, fserr.ENOENT))
	_, err = p.FS().Stat("../../etc/passwd")
	fmt.Println(errors.Is(err, fs.ErrPermission))
	// Output:
	// . true
	// main.go false
	// notes.md false
	// open nope.md: ENOENT: no such file or directory
	// true true
	// true
}

// serveExample serves a workspace with one repository, as `ctxfs serve` does.
func serveExample() (workspace string, stop func()) {
	workspace, err := os.MkdirTemp("", "ctxfs-example-")
	if err != nil {
		panic(err)
	}
	if err := os.Mkdir(filepath.Join(workspace, ".git"), 0o755); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(workspace, "main.go"), []byte("package main\n"), 0o644); err != nil {
		panic(err)
	}
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.DiskReserve = workspace, 0
	s, err := server.New(context.Background(), cfg, server.Deps{Version: "0.0.0-example"})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return workspace, func() {
		cancel()
		if err := errors.Join(<-done, os.RemoveAll(workspace)); err != nil {
			panic(err)
		}
	}
}
