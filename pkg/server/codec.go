package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// shared is a message that is encoded already, and that many streams send.
type shared mem.BufferSlice

// sharedPods returns a message that begins with what is encoded already, and goes on
// with pods as a repeated field.
func sharedPods(head []byte, field protowire.Number, pods [][]byte) shared {
	message := make(shared, 0, 1+2*len(pods))
	for _, pod := range pods {
		head = protowire.AppendTag(head, field, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(pod)))
		message = append(message, mem.SliceBuffer(head), mem.SliceBuffer(pod))
		head = nil
	}
	if len(pods) == 0 {
		message = append(message, mem.SliceBuffer(head))
	}
	return message
}

// tracked is a message, and what to call once it is written. A message that is given up
// may be forgotten without a call.
type tracked struct {
	message any
	written func()
}

// sharedCodec is the codec of protobuf that takes shared and tracked messages.
type sharedCodec struct{ encoding.CodecV2 }

// Marshal returns the message on the wire.
func (c sharedCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case shared:
		return mem.BufferSlice(v), nil
	case tracked:
		data, err := c.Marshal(v.message)
		if err != nil {
			return nil, err
		}
		return append(data, endMark(v.written)), nil
	}
	return c.CodecV2.Marshal(v)
}

// endMark returns an empty buffer to end a message with. gRPC frees a message's buffers
// when it has written the message.
func endMark(freed func()) mem.Buffer {
	nothing := make([]byte, 0, endMarkSize)
	return mem.NewBuffer(&nothing, freedPool{freed})
}

// endMarkSize is what a buffer must be able to hold to be given back to its pool when it
// is freed; see mem.IsBelowBufferPoolingThreshold.
const endMarkSize = 1<<10 + 1

// freedPool is a pool of one buffer that tells when it is given back.
type freedPool struct{ freed func() }

// Get returns a buffer of its own.
func (freedPool) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put tells that the buffer is free.
func (p freedPool) Put(*[]byte) { p.freed() }
