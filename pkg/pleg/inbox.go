package pleg

import "sync"

// maxInbox is the maximum size of the events that wait to be handled, in bytes as counted by size. It has room for
// thousands of events.
const maxInbox = 4 << 20

// inbox has the received events of the stream until the goroutine of Run handles them. So receiving never waits:
// containerd does not drop events for a slow client. It blocks.
type inbox struct {
	// ready has an element when there is something to take.
	ready chan struct{}

	mu      sync.Mutex
	content received
	// size is the size of the events, most the maximum size.
	size, most int
}

// received is what came from the stream, in this order: its opening, dropped events, events.
type received struct {
	opened  bool
	dropped int64
	events  []RuntimeEvent
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1), most: maxInbox} }

// open adds the opening of a stream. The caller has taken everything of an earlier stream.
func (b *inbox) open() {
	b.mu.Lock()
	b.content.opened = true
	b.mu.Unlock()
	b.notify()
}

// add adds an event. If there is no room for it, all events are dropped.
func (b *inbox) add(e RuntimeEvent) {
	b.mu.Lock()
	b.size += size(e)
	b.content.events = append(b.content.events, e)
	if b.size > b.most {
		b.content.drop()
		b.size = 0
	}
	b.mu.Unlock()
	b.notify()
}

func (b *inbox) notify() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take returns the content and leaves nothing.
func (b *inbox) take() received {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.content
	b.content, b.size = received{}, 0
	return taken
}

func (r *received) drop() {
	r.dropped += int64(len(r.events))
	r.events = nil
}

// size returns the approximate memory of an event in bytes.
func size(e RuntimeEvent) int {
	const event, pod, container = 64, 96, 160
	n := event + len(e.ContainerID)
	if e.Pod == nil {
		return n
	}
	n += pod + len(e.Pod.UID) + len(e.Pod.Namespace) + len(e.Pod.Name)
	for _, c := range e.Pod.Containers {
		n += container + len(c.ID) + len(c.Name)
	}
	return n
}
