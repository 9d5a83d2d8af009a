package server

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// sighting is a filled pod in an answer.
type sighting struct {
	op  string
	pod *v1.Pod
}

// podsInJSON returns the filled pods in JSON objects, and in the start of one. The operation is that of
// the object around them.
func podsInJSON(t *testing.T, answer string) (pods []sighting) {
	t.Helper()
	var walk func(op string, value any)
	walk = func(op string, value any) {
		switch value := value.(type) {
		case []any:
			for _, item := range value {
				walk(op, item)
			}
		case map[string]any:
			for _, name := range []string{"op", "type"} {
				if text, ok := value[name].(string); ok {
					op = text
				}
			}
			if meta, ok := value["metadata"].(map[string]any); ok && slices.Contains(filledNames, fmt.Sprint(meta["name"])) {
				pods = append(pods, sighting{op, decodePod(t, value)})
				return
			}
			for _, item := range value {
				walk(op, item)
			}
		}
	}
	for in := json.NewDecoder(strings.NewReader(answer)); ; {
		var value any
		if in.Decode(&value) != nil {
			return pods
		}
		walk("", value)
	}
}

func decodePod(t *testing.T, value any) *v1.Pod {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	pod := new(v1.Pod)
	if err := json.Unmarshal(data, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// podsInProtobuf returns the filled pods of a PodList, a Pod or a watch of the Kubernetes API.
func podsInProtobuf(t *testing.T, answer string) (pods []sighting) {
	t.Helper()
	for len(answer) > 4 && answer[0] == 0 { // events, each after its size
		n := int(binary.BigEndian.Uint32([]byte(answer[:4])))
		if len(answer) < 4+n {
			break // the test reads no further
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal([]byte(answer[4 : 4+n])); err != nil {
			t.Fatal(err)
		}
		for _, p := range podsInProtobuf(t, string(event.Object.Raw)) {
			pods = append(pods, sighting{event.Type, p.pod})
		}
		answer = answer[4+n:]
	}
	if len(pods) > 0 {
		return pods
	}
	data, ok := strings.CutPrefix(answer, "k8s\x00")
	if !ok {
		return nil
	}
	var object runtime.Unknown
	var list v1.PodList
	err := object.Unmarshal([]byte(data))
	switch {
	case err != nil:
	case object.Kind == "PodList":
		err = list.Unmarshal(object.Raw)
	case object.Kind == "Pod":
		list.Items = make([]v1.Pod, 1)
		err = list.Items[0].Unmarshal(object.Raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if slices.Contains(filledNames, list.Items[i].Name) {
			pods = append(pods, sighting{"", &list.Items[i]})
		}
	}
	return pods
}

// podsInMessage returns the filled pods in a message. Each field of bytes is a pod.
func podsInMessage(t *testing.T, m protoreflect.Message, op string) (pods []sighting) {
	t.Helper()
	for _, name := range []protoreflect.Name{"op", "type"} {
		if f := m.Descriptor().Fields().ByName(name); f != nil && f.Kind() == protoreflect.EnumKind {
			op = strings.TrimPrefix(string(f.Enum().Values().ByNumber(m.Get(f).Enum()).Name()), "OPERATION_")
		}
	}
	one := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
		switch f.Kind() {
		case protoreflect.BytesKind:
			pod := new(v1.Pod)
			if err := pod.Unmarshal(v.Bytes()); err != nil {
				t.Errorf("%s is no pod: %v", f.FullName(), err)
			}
			if slices.Contains(filledNames, pod.Name) {
				pods = append(pods, sighting{op, pod})
			}
		case protoreflect.MessageKind:
			pods = append(pods, podsInMessage(t, v.Message(), op)...)
		}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				one(f.MapValue(), v)
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				one(f, v.List().Get(i))
			}
		default:
			one(f, v)
		}
		return true
	})
	return pods
}
