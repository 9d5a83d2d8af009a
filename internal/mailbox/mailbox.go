// Package mailbox makes a goroutine that owns some state call functions for other goroutines.
package mailbox

import (
	"context"
	"errors"
)

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("its owner has ended")

// Mailbox has the functions that its owner is to call.
type Mailbox struct {
	calls  chan func(context.Context)
	closed chan struct{}
}

// New returns a mailbox.
func New() *Mailbox {
	return &Mailbox{calls: make(chan func(context.Context)), closed: make(chan struct{})}
}

// Calls has one function at a time. The owner must call each that it receives, with its context.
func (m *Mailbox) Calls() <-chan func(context.Context) { return m.calls }

// Close makes Do return ErrClosed from now on. Without it, Do waits for its context.
func (m *Mailbox) Close() { close(m.closed) }

// Do makes the owner call the function, and returns its error, or the cause of the context. It waits
// for the start of the owner. If the context ends first, the owner may still call the function.
func (m *Mailbox) Do(ctx context.Context, do func(context.Context) error) error {
	result := make(chan error, 1)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.closed:
		return ErrClosed
	case m.calls <- func(ctx context.Context) { result <- do(ctx) }:
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-result:
		return err
	}
}
