package ledger

import (
	"fmt"
	"maps"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (h *host) collect() *hostStep {
	s := h.step("all", func(w world) { clear(w.templates) }, func() error {
		_, err := h.c.CollectGarbage(h.ctx, &ctxfsv1.CollectGarbageRequest{})
		return err
	})
	before := h.state
	s.partly = func(seen world) world { // one template goes after the other
		some := before.clone()
		maps.DeleteFunc(some.templates, func(at string, _ bool) bool { return !seen.templates[at] })
		return some
	}
	return s
}

func (h *host) openPanel() *hostStep {
	n := h.rng.IntN(3)
	panel, id := fmt.Sprintf("panels/h%d", n), fmt.Sprintf("ctx_panels~h%d", n)
	if h.panels[panel] != nil {
		return nil
	}
	var s *hostStep
	s = h.step(id, func(w world) {
		if _, there := w.contexts[id]; !there {
			w.contexts[id] = h.fresh()
		}
	}, func() error {
		p, err := h.c.OpenPanel(h.ctx, panel)
		if err != nil {
			return err
		}
		token, _ := p.Token()
		h.panels[panel], s.after.tokens[token] = []string{token}, true
		return p.Close()
	})
	s.name = "openPanel" // also where another operation needs an open one
	return s
}

// maxRenewed bounds the tokens of one panel.
const maxRenewed = 4

// renewToken gives a panel a further token; those that it had hold on.
func (h *host) renewToken() *hostStep {
	for panel, tokens := range h.panels {
		if len(tokens) > maxRenewed {
			continue
		}
		var s *hostStep
		s = h.step(panel, func(world) {}, func() error {
			token, _, err := h.c.RenewToken(h.ctx, panel, 0)
			if err == nil {
				h.panels[panel], s.after.tokens[token] = append(tokens, token), true
			}
			return err
		})
		return s
	}
	return h.openPanel()
}

func (h *host) labelPanel() *hostStep {
	for panel := range h.panels {
		h.serial++
		value := fmt.Sprint(h.serial)
		return h.step(panel, func(w world) { w.labels[panel] = value }, func() error {
			_, err := h.c.SetPanelLabels(h.ctx, panel, map[string]string{labelKey: value})
			return err
		})
	}
	return h.openPanel()
}

// closePanel ends all tokens of a panel.
func (h *host) closePanel() *hostStep {
	for panel, tokens := range h.panels {
		return h.step(panel, func(w world) {
			for _, token := range tokens {
				w.tokens[token] = false
			}
		}, func() error {
			_, err := h.c.ClosePanel(h.ctx, panel)
			if err == nil {
				delete(h.panels, panel)
			}
			return err
		})
	}
	return h.openPanel()
}

// buildTemplate builds one that may be there: a collection takes them all, since no context is of them.
func (h *host) buildTemplate() *hostStep {
	at := templateFolder(h.rng.IntN(templates))
	return h.step(at, func(w world) { w.templates[at] = true }, func() error {
		_, err := h.c.BuildTemplate(h.ctx, at, nil)
		return err
	})
}

// hostReads is what all that a host asks is called.
const hostReads = "(host reads)"

// reads asks what hosts can ask, and compares it with the ledger where that knows it.
func (h *host) reads() *hostStep {
	id := h.some(nil)
	return h.step(id, func(world) {}, func() error {
		c, err := h.c.MeasureContext(h.ctx, id)
		if err = equal("the state of "+id, ctxfsv1.ContextState_CONTEXT_STATE_READY, c.GetState(), err); err != nil {
			return err
		}
		info, err := h.c.Info(h.ctx, id)
		if err = equal("the context asked about", id, info.GetContextId(), err); err != nil {
			return err
		}
		list, err := h.c.ListPanels(h.ctx)
		if err = equal("that all open panels are listed", true, len(list) >= len(h.panels), err); err != nil {
			return err
		}
		_, err = h.c.PlanSeed(h.ctx, 0)
		return err
	})
}
