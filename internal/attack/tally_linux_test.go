package attack

import (
	"fmt"
	"maps"
	"slices"
)

// outcome counts the calls of one kind.
type outcome struct{ tried, worked int64 }

// tally counts what a race did, by the kind of call.
type tally struct {
	calls map[string]outcome
	// turned is how often the mover has moved there and back, asked how often another context
	// was asked meanwhile.
	turned, asked int64
}

func (t *tally) count(what string, worked bool) {
	if t.calls == nil {
		t.calls = map[string]outcome{}
	}
	o := t.calls[what]
	o.tried++
	if worked {
		o.worked++
	}
	t.calls[what] = o
}

func (t *tally) add(more tally) {
	for what, o := range more.calls {
		if t.calls == nil {
			t.calls = map[string]outcome{}
		}
		sum := t.calls[what]
		t.calls[what] = outcome{sum.tried + o.tried, sum.worked + o.worked}
	}
	t.turned += more.turned
	t.asked += more.asked
}

func (t *tally) tried() (n int64) {
	for _, o := range t.calls {
		n += o.tried
	}
	return n
}

// plenty is how many calls must have been made of a kind before it is a fault that none of
// them worked: on a busy machine, the short races of every day make few of the dear ones.
const plenty = 200

// rare are the calls that seldom succeed in the short races: a watch takes many steps to set up, each of which the mover can
// break, and is then kept for 20 ms only. The long races require that they succeed.
var rare = map[string]bool{"watch": true, "watch above": true}

// idle lists the parts of a race that never took place.
func (t *tally) idle() (found []string) {
	if t.turned == 0 {
		found = append(found, "the mover never moved there and back")
	}
	if t.asked == 0 {
		found = append(found, "no other context was asked")
	}
	if len(t.calls) == 0 {
		found = append(found, "nothing was called")
	}
	for _, what := range slices.Sorted(maps.Keys(t.calls)) {
		if o := t.calls[what]; o.worked == 0 && (o.tried >= plenty && !rare[what] || attackTime() != quick) {
			found = append(found, fmt.Sprintf("none of %d calls of %s worked", o.tried, what))
		}
	}
	return found
}
