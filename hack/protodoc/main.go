// Command protodoc writes the reference page of the gRPC interface, from an image of buf:
//
//	buf build -o IMAGE && protodoc IMAGE > docs/reference/grpc.md
package main

import (
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	file         = "podconfigd/v1alpha1/podconfigd.proto"
	introduction = `# Reference of gRPC

<!-- Generated from api/podconfigd/v1alpha1/podconfigd.proto by "make generate". Do not edit. -->

Each socket and each address serves gRPC besides HTTP. [The stream](stream.md) describes the guarantees, the operations and
how to resume, which are the same. [podconfigd.proto](../../api/podconfigd/v1alpha1/podconfigd.proto) is the source. The server
supports reflection, and the health service ` + "`grpc.health.v1`" + `. [The kubelet's APIs](kubelet-apis.md) describes its Pods API.

A pod can be larger than the 4 MiB that gRPC clients accept by default: raise the limit to 16 MiB, in Go with
` + "`grpc.MaxCallRecvMsgSize`" + `, and for ` + "`List`" + ` to the size of all pods.
`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protodoc IMAGE")
		os.Exit(2)
	}
	page, err := generate(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "protodoc:", err)
		os.Exit(1)
	}
	fmt.Print(page)
}

func generate(image string) (string, error) {
	data, err := os.ReadFile(image)
	if err != nil {
		return "", err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(data, set); err != nil {
		return "", err
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return "", err
	}
	described, err := files.FindFileByPath(file)
	if err != nil {
		return "", err
	}
	p := &page{file: described}
	p.out.WriteString(introduction)
	for service := range each(described.Services()) {
		p.service(service)
	}
	p.messages(described.Messages())
	p.enums(described.Enums())
	return p.out.String(), nil
}

// each goes over a list of descriptors.
func each[D any](list interface {
	Len() int
	Get(i int) D
},
) func(yield func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

// page is the reference page.
type page struct {
	file protoreflect.FileDescriptor
	out  strings.Builder
}

// comment is the comment of a descriptor: as it is, or in one line.
func (p *page) comment(d protoreflect.Descriptor) string {
	lines := strings.Split(strings.TrimSpace(p.file.SourceLocations().ByDescriptor(d).LeadingComments), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

func (p *page) inLine(d protoreflect.Descriptor) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(p.comment(d)), " "), "|", "\\|")
}

func (p *page) service(service protoreflect.ServiceDescriptor) {
	fmt.Fprintf(&p.out, "\n## %s\n\n%s\n", service.FullName(), p.comment(service))
	for method := range each(service.Methods()) {
		fmt.Fprintf(&p.out, "\n### %s\n\n`%s(%s%s) returns (%s%s)`\n\n%s\n", method.Name(), method.Name(),
			stream(method.IsStreamingClient()), method.Input().Name(), stream(method.IsStreamingServer()), method.Output().Name(), p.comment(method))
	}
}

func stream(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

func (p *page) messages(list protoreflect.MessageDescriptors) {
	for message := range each(list) {
		if message.IsMapEntry() {
			continue
		}
		fmt.Fprintf(&p.out, "\n### %s\n\n%s\n", message.Name(), p.comment(message))
		if message.Fields().Len() > 0 {
			p.out.WriteString("\n| field | number | type | |\n|---|---|---|---|\n")
		}
		for field := range each(message.Fields()) {
			fmt.Fprintf(&p.out, "| `%s` | %d | %s | %s |\n", field.Name(), field.Number(), kind(field), p.inLine(field))
		}
		p.messages(message.Messages())
		p.enums(message.Enums())
	}
}

func (p *page) enums(list protoreflect.EnumDescriptors) {
	for enum := range each(list) {
		fmt.Fprintf(&p.out, "\n### %s\n\n%s\n\n| value | number | |\n|---|---|---|\n", enum.Name(), p.comment(enum))
		for value := range each(enum.Values()) {
			fmt.Fprintf(&p.out, "| `%s` | %d | %s |\n", value.Name(), value.Number(), p.inLine(value))
		}
	}
}

// kind is the type of a field. Types of this page are links.
func kind(field protoreflect.FieldDescriptor) string {
	if field.IsMap() {
		return fmt.Sprintf("map of %s to %s", kind(field.MapKey()), kind(field.MapValue()))
	}
	name := field.Kind().String()
	var named protoreflect.Descriptor
	switch field.Kind() {
	case protoreflect.MessageKind:
		named = field.Message()
	case protoreflect.EnumKind:
		named = field.Enum()
	}
	if named != nil {
		name = "`" + string(named.FullName()) + "`"
		if named.ParentFile().Path() == file {
			name = fmt.Sprintf("[%s](#%s)", named.Name(), strings.ToLower(string(named.Name())))
		}
	}
	if field.IsList() {
		return "repeated " + name
	}
	return name
}
