package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/git"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
	"github.com/ctxfs/ctxfs/server/services"
)

func (e Env) templateCommand() *cobra.Command {
	group := &cobra.Command{Use: "template", Short: "Explain, build and list context templates", Args: noArgs}
	explain := withSettings(&cobra.Command{
		Use: "explain [PATH]", Short: "Print what a template means now, and where each path of it comes from",
		Long: "Reads the template at PATH, a folder or a file of the workspace (its root when there is none), with all that it\n" +
			"extends, and prints the merged result with commits for refs. It asks repositories, and builds nothing. It needs no server.",
		Args: cobra.MaximumNArgs(1),
	})
	explain.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, _, err := e.load(cmd)
		if err != nil {
			return err
		}
		path := "."
		if len(args) > 0 {
			path = args[0]
		}
		resolved, err := resolve(cmd.Context(), cfg, path)
		if err != nil {
			return err
		}
		if !wantsJSON(cmd) {
			_, err = fmt.Fprint(e.Stdout, resolved.Explain())
			return err
		}
		enc := json.NewEncoder(e.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"hash": resolved.Hash, "chain": resolved.Chain, "deps": resolved.Deps})
	}
	group.AddCommand(explain)
	return group
}

// PlanSeed says what a server here would seed contexts with, with the settings of the environment.
func (e Env) PlanSeed(ctx context.Context, largest int, seedFrom ...string) (_ *ctxfsv1.PlanSeedResponse, err error) {
	cfg, _, err := e.load(withSettings(&cobra.Command{}))
	if err != nil {
		return nil, err
	}
	layout, err := contexts.NewLayout(cfg.Workspace, cfg.ContextsDir)
	if err != nil {
		return nil, err
	}
	root, err := rootfs.Open(layout.Workspace, rootfs.Options{FollowMounts: true})
	if err != nil {
		return nil, fmt.Errorf("the workspace %s cannot be opened: %w", layout.Workspace, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	plan, err := contexts.PlanSeed(ctx, layout.Source(root), cfg.SeedOptions(), contexts.PlanOptions{Largest: largest, From: seedFrom})
	if err != nil {
		return nil, err
	}
	return services.PlanToPB(plan), nil
}

// resolve reads a template of the workspace, without its server.
func resolve(ctx context.Context, cfg server.Config, path string) (_ *template.Resolved, err error) {
	layout, err := contexts.NewLayout(cfg.Workspace, cfg.ContextsDir)
	if err != nil {
		return nil, err
	}
	root, err := rootfs.Open(layout.Workspace, rootfs.Options{FollowMounts: true})
	if err != nil {
		return nil, fmt.Errorf("the workspace %s cannot be opened: %w", layout.Workspace, err)
	}
	defer func() { _ = root.Close() }()
	scratch, err := os.MkdirTemp("", "ctxfs-template-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	resolver, err := template.NewResolver(layout.Source(root), cfg.GitBase, git.Options{
		Scratch: scratch, Timeout: cfg.GitTimeout, FetchTimeout: cfg.GitFetchTimeout,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resolver.Close()) }()
	return resolver.Resolve(ctx, path)
}
