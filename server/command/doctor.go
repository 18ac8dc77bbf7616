package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/server"
)

// The marks of a finding.
const (
	markOK     = "ok"
	markWarn   = "warn"
	markFail   = "fail"
	markRepair = "did"
)

// finding is one line of doctor.
type finding struct {
	Mark  string `json:"mark"`
	Topic string `json:"topic"`
	Text  string `json:"text"`
}

// examination looks at a workspace and leaves nothing changed in it.
type examination struct {
	ctx    context.Context //nolint:containedctx // lives for one command
	cfg    server.Config
	layout contexts.Layout
	// made says that the contexts directory is there.
	made bool
	scan *seed.Scan
	// userns says why overlay-userns does not work in a directory, "" when it does.
	userns func(ctx context.Context, dir string) string
	// copies is how many times the workspace goes onto the disk for a first context.
	copies   int64
	findings []finding
}

func (x *examination) say(mark, topic, format string, args ...any) {
	x.findings = append(x.findings, finding{mark, topic, fmt.Sprintf(format, args...)})
}

func (e Env) doctorCommand() *cobra.Command {
	var repair bool
	cmd := withSettings(&cobra.Command{
		Use: "doctor", Short: "Look for what is wrong, or will be; exit 1 on a failure", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := e.load(cmd)
			if err != nil {
				return err
			}
			var did []finding
			if repair {
				if did, err = e.repair(cmd.Context(), cfg); err != nil {
					return err
				}
			}
			return e.printFindings(append(did, examine(cmd.Context(), cfg, e.usernsRefusal)...), wantsJSON(cmd))
		},
	})
	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild the records from the folders, while no server runs, and say what could not be known")
	return cmd
}

func examine(ctx context.Context, cfg server.Config, userns func(context.Context, string) string) []finding {
	x := &examination{ctx: ctx, cfg: cfg, userns: userns}
	l, err := cfg.Layout()
	if err != nil {
		x.say(markFail, "workspace", "%v", err)
		return x.findings
	}
	x.layout = l
	for _, check := range []func(){x.workspace, x.seed, x.git, x.driver, x.exec, x.disk, x.state, x.records, x.reviews, x.socket, x.inotify} {
		check()
	}
	return x.findings
}

func (e Env) printFindings(list []finding, asJSON bool) error {
	var failed []string
	for _, f := range list {
		if f.Mark == markFail {
			failed = append(failed, f.Topic)
		}
	}
	if asJSON {
		enc := json.NewEncoder(e.Stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(list); err != nil {
			return err
		}
	} else {
		for _, f := range list {
			if _, err := fmt.Fprintf(e.Stdout, "%-4s  %-9s  %s\n", f.Mark, f.Topic, f.Text); err != nil {
				return err
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("doctor: %s failed", strings.Join(failed, ", "))
	}
	return nil
}

func (e Env) repair(ctx context.Context, cfg server.Config) ([]finding, error) {
	log, err := server.NewLogger(cfg, e.Stderr)
	if err != nil {
		return nil, err
	}
	r, err := server.Repair(ctx, cfg, server.Deps{Log: log, Version: e.Version})
	if err != nil {
		return nil, err
	}
	x := &examination{}
	if r.Aside != "" {
		x.say(markRepair, "repair", "the corrupt database was moved to %s", r.Aside)
	}
	if r.Revoked > 0 {
		x.say(markRepair, "repair", "the database had lost commits: %s tokens were revoked, since revocations may be among them; open the panels again", seed.Count(int64(r.Revoked)))
	}
	for _, id := range r.Recovered {
		x.say(markRepair, "repair", "made a record of %s from its folder", id)
	}
	for _, id := range r.Dropped {
		x.say(markRepair, "repair", "dropped the record of %s, which has no folder", id)
	}
	for _, name := range r.Accepted {
		x.say(markRepair, "repair", "took %s as it is: a directory that was renamed lacks what was not changed in it, "+
			"and one that replaced another shows what that one held", name)
	}
	for _, text := range r.GaveUp {
		x.say(markRepair, "repair", "%s", text)
	}
	if r.Swept > 0 {
		x.say(markRepair, "repair", "removed %s entries of unfinished seedings", seed.Count(int64(r.Swept)))
	}
	for _, name := range r.Ignored {
		x.say(markWarn, "repair", "%q in the contexts directory is no context and was left alone", name)
	}
	for _, text := range r.Unknown {
		x.say(markWarn, "repair", "%s", text)
	}
	if len(x.findings) == 0 {
		x.say(markOK, "repair", "nothing to repair")
	}
	return x.findings, nil
}
