package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

// trial is one run of the demo: two panels, and steps that each say what they saw.
type trial struct {
	app    *app
	client *client.Client
	a, b   *client.Panel
	// file is an open handle of panel a.
	file    *client.File
	results []stepResult
}

// stepResult is a step's outcome.
type stepResult struct {
	Step string `json:"step"`
	OK   bool   `json:"ok"`
	// Saw is what happened, or went wrong.
	Saw string `json:"saw"`
}

// step does something and says what it saw; an error means that it was not as expected.
type step struct {
	name string
	do   func(context.Context) (string, error)
}

func (a *app) tryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "try", Short: "Try everything on the running server with two panels, then clean up", Args: usage(cobra.NoArgs),
		RunE: a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			t := &trial{app: a, client: c}
			err := t.run(ctx)
			if cleanErr := t.clean(); err == nil {
				err = cleanErr
			}
			if a.json {
				err = errors.Join(a.printJSON(t.results), err)
			}
			return err
		}),
	}
}

// run takes the steps in order, up to the first that is not as expected.
func (t *trial) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for _, s := range t.steps() {
		saw, err := s.do(ctx)
		if err != nil {
			saw = describe(err)
		}
		if outErr := t.report(stepResult{Step: s.name, OK: err == nil, Saw: saw}); outErr != nil {
			return outErr
		}
		if err != nil {
			return fmt.Errorf("try: %s: not as expected", s.name)
		}
	}
	return nil
}

func (t *trial) report(r stepResult) error {
	t.results = append(t.results, r)
	if t.app.json {
		return nil
	}
	mark := "ok  "
	if !r.OK {
		mark = "FAIL"
	}
	return t.app.printf("%s  %-8s %s\n", mark, r.Step, printable(r.Saw))
}

// clean removes what the trial made, also after an interrupt.
func (t *trial) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, p := range []*client.Panel{t.a, t.b} {
		if p == nil {
			continue
		}
		_, err := t.client.ClosePanel(ctx, p.ID())
		errs = append(errs, p.Close(), err)
		_, err = t.client.DeleteContext(ctx, p.ContextID())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// open opens the two panels under names of their own.
func (t *trial) open(ctx context.Context) (string, error) {
	name := "try-" + rand.Text()[:10]
	var err error
	if t.a, err = t.app.open(ctx, t.client, name+"/a", panelFlags{}); err != nil {
		return "", err
	}
	if t.b, err = t.app.open(ctx, t.client, name+"/b", panelFlags{}); err != nil {
		return "", err
	}
	o := t.a.Opened()
	return fmt.Sprintf("panels %s and %s; %s files, %s, seeded in %d ms and %d ms", t.a.ID(), t.b.ID(),
		number(o.GetFiles()), size(o.GetBytes()), o.GetDurationMs(), t.b.Opened().GetDurationMs()), nil
}
