package await

import "slices"

// Keys has who waits for which key. What guards it is up to its owner.
type Keys[K comparable] map[K][]chan struct{}

// Add returns a channel that is closed at the first Wake for one of the keys. Remove forgets it.
func (k Keys[K]) Add(keys ...K) chan struct{} {
	woken := make(chan struct{})
	for _, key := range keys {
		k[key] = append(k[key], woken)
	}
	return woken
}

// Wake closes the channels of a key.
func (k Keys[K]) Wake(key K) {
	for _, woken := range k[key] {
		select {
		case <-woken: // closed for another key
		default:
			close(woken)
		}
	}
	delete(k, key)
}

// Remove forgets a channel of Add with its keys.
func (k Keys[K]) Remove(woken chan struct{}, keys ...K) {
	for _, key := range keys {
		k[key] = slices.DeleteFunc(k[key], func(other chan struct{}) bool { return other == woken })
		if len(k[key]) == 0 {
			delete(k, key)
		}
	}
}
