package template

import "sync"

// object is one of a repository's objects, by its full ID.
type object struct{ source, id string }

// peeled remembers which commit an object leads to: itself, or what a tag names. An ID says all of an object's content, so that never
// changes; only whether the repository still has it may, and a build sees that. With it a template whose refs have not moved
// is resolved without git.
type peeled struct {
	mu      sync.Mutex
	commits map[object]string
}

// maxPeeled bounds how many are remembered; beyond it they are asked for anew.
const maxPeeled = 10_000

// of returns the commit of rev, by ask when it is not known. What is no full ID is never remembered.
func (p *peeled) of(source, rev string, ask func() (string, error)) (string, error) {
	key := object{source, rev}
	p.mu.Lock()
	commit, ok := p.commits[key]
	p.mu.Unlock()
	if ok {
		return commit, nil
	}
	commit, err := ask()
	if err != nil || !isObjectID(rev) {
		return commit, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.commits) >= maxPeeled {
		clear(p.commits)
	}
	p.commits[key] = commit
	return commit, nil
}
