package overlay

import "sync"

// maxLinkedLayers bounds the memory; beyond it all are looked at anew.
const maxLinkedLayers = 64

// layerID is the tree of a layer.
type layerID struct {
	path     string
	dev, ino uint64
}

// linkedLayers remembers which files of layers have several names, so that a layer is walked once.
type linkedLayers struct {
	mu    sync.Mutex
	names map[layerID]map[string]bool
}

// of returns what is remembered of a layer, or else what look finds.
func (l *linkedLayers) of(id layerID, look func() (map[string]bool, error)) (map[string]bool, error) {
	l.mu.Lock()
	names, ok := l.names[id]
	l.mu.Unlock()
	if ok {
		return names, nil
	}
	names, err := look()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil || len(l.names) >= maxLinkedLayers {
		l.names = map[layerID]map[string]bool{}
	}
	l.names[id] = names
	return names, nil
}
