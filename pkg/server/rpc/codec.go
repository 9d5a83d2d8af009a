package rpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// shared is an encoded message. Several streams can send it.
type shared mem.BufferSlice

// sharedPods returns a message that consists of head, which is encoded, and the pods as a
// repeated field.
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

// tracked is a message with a function that is called after the message is written. The
// function may not be called if the stream ends before.
type tracked struct {
	message any
	written func()
}

// sharedCodec is the protobuf codec, extended by shared and tracked messages.
type sharedCodec struct{ encoding.CodecV2 }

// Marshal encodes a message.
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

// endMark returns an empty buffer for the end of a message. gRPC frees the buffers of a message after it
// has written the message, or when the stream ends. Then freed is called.
//
// That gRPC frees a buffer is not the event that counts, but gRPC has none for a written message. It is the
// same only without compression: see uncompressed. TestUnreadAnswersOfEachMethod shows it for each method.
func endMark(freed func()) mem.Buffer {
	nothing := make([]byte, 0, endMarkSize)
	return mem.NewBuffer(&nothing, freedPool{freed})
}

// endMarkSize is the minimum capacity of a buffer that is returned to its pool when it is
// freed; see mem.IsBelowBufferPoolingThreshold.
const endMarkSize = 1<<10 + 1

// freedPool is a pool that calls a function when a buffer is returned to it.
type freedPool struct{ freed func() }

// Get returns a new buffer.
func (freedPool) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put calls the function.
func (p freedPool) Put(*[]byte) { p.freed() }
