package ctxsend

import "context"

func sends(ctx context.Context, c chan int, receive <-chan int, stopped <-chan struct{}) {
	c <- 1 // want `send on a channel without a select on ctx.Done`
	select {
	case c <- 1: // want `send on a channel`
	}
	select {
	case c <- 1: // want `send on a channel`
	case <-receive:
	}
	select {
	case c <- 1:
	case <-ctx.Done():
		c <- 2 // want `send on a channel`
	}
	select {
	case c <- 1:
	case <-stopped:
	}
	select {
	case c <- 1:
	default:
	}
	c <- 1 //nolint:ctxsend // the caller receives all
	c <- 1 /* want `send on a channel` */ //nolint:ctxsend
}

func room(serve func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	two := make(chan int, 1)
	two <- 1 // want `send on a channel`
	two <- 2 // want `send on a channel`
	none := make(chan int)
	none <- 1 // want `send on a channel`
	places := make(chan int, 3)
	for range 3 {
		places <- 1 // want `send on a channel`
		each := make(chan int, 1)
		each <- 1
	}
	return <-ended
}

func callbacks(register func(func()), group interface{ Go(func()) }) {
	once := make(chan int, 1)
	group.Go(func() { once <- 1 })
	called := make(chan int, 1)
	register(func() { called <- 1 }) // want `send on a channel`
	named := make(chan int, 1)
	send := func() { named <- 1 } // want `send on a channel`
	send()
	send()
	register(func() {
		own := make(chan int, 1)
		own <- 1
	})
}
