// Package calls lets other goroutines run functions in the goroutine that owns some state:
//
//	err := box.Do(ctx, func(ctx context.Context) error { state.n++; return nil }) // in any goroutine
//
//	case call := <-box.Calls(): // in the loop of the owner
//		call(ctx)
package calls

import (
	"context"
	"errors"
)

// ErrClosed is the error of Do after Close.
var ErrClosed = errors.New("its owner has ended")

// Mailbox passes functions to its owner.
type Mailbox struct {
	calls  chan func(context.Context)
	closed chan struct{}
}

// New returns a mailbox.
func New() *Mailbox {
	return &Mailbox{calls: make(chan func(context.Context)), closed: make(chan struct{})}
}

// Calls returns the channel of functions. The owner must call each function that it receives, with its own context.
func (m *Mailbox) Calls() <-chan func(context.Context) { return m.calls }

// Close makes Do return ErrClosed from now on. Without Close, Do waits for the end of its context if the owner has ended.
func (m *Mailbox) Close() { close(m.closed) }

// Do makes the owner call the function, and returns the error of the function. It also waits for an owner that has not
// started. If the context ends first, Do returns its cause, and the owner may still call the function.
func (m *Mailbox) Do(ctx context.Context, do func(context.Context) error) error {
	result := make(chan error, 1)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.closed:
		return ErrClosed
	case m.calls <- func(ctx context.Context) { result <- do(ctx) }: //nolint:ctxsend // the owner calls it once
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-result:
		return err
	}
}
