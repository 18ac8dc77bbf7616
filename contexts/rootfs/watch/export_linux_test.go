package watch

// EventCost and MaxLevels are the bytes that an event counts for besides its name, and the directories held open at once.
const (
	EventCost = eventCost
	MaxLevels = maxLevels
)

// Used and Limit return the bytes that b counts and may count.
func (b *Budget) Used() int64  { return b.used.Load() }
func (b *Budget) Limit() int64 { return b.limit }

// HubUsers returns how many watchers share the inotify instance, and whether there is one.
func HubUsers() (users int, exists bool) { return sharedHub.users, sharedHub.hub != nil }
