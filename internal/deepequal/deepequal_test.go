package deepequal

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

type tree struct {
	Name     string
	Children []tree
	Next     *tree
}

type odd struct {
	A     bool
	B     int64 // after padding
	C     bool
	F     float64
	I     any
	M     map[string]int
	N     map[v1.ResourceName]string
	Array [2]string
	Flat  [3]uint16
	Bytes []byte
	f     func()
	time  time.Time
}

// same compares Equal with reflect.DeepEqual.
func same[T any](t *testing.T, a, b T) {
	t.Helper()
	got, want := Equal(&a, &b), reflect.DeepEqual(a, b)
	if got != want {
		t.Errorf("%t, want %t:\n%+v\n%+v", got, want, a, b)
	}
}

func TestOddTypes(t *testing.T) {
	f := func() {}
	now := time.Now()
	values := []odd{
		{}, {A: true}, {B: 1}, {C: true}, {F: math.NaN()}, {F: math.Copysign(0, -1)}, {I: 1}, {I: "1"}, {I: []int{1}}, {M: map[string]int{}},
		{M: map[string]int{"a": 1}}, {M: map[string]int{"a": 2}}, {N: map[v1.ResourceName]string{}}, {N: map[v1.ResourceName]string{"a": "b"}},
		{N: map[v1.ResourceName]string{"b": "b"}}, {Array: [2]string{"a"}}, {Flat: [3]uint16{1}}, {Bytes: []byte{}}, {Bytes: []byte{1}}, {Bytes: []byte{2}}, {f: f}, {time: now}, {time: now.UTC()},
		{time: now.Add(1)},
	}
	for _, a := range values {
		for _, b := range values {
			same(t, a, b)
		}
	}
	deep := tree{Name: "a", Children: []tree{{Name: "b"}, {Children: []tree{}}}, Next: &tree{Name: "c"}}
	trees := []tree{{}, deep, {Name: "a", Children: []tree{{Name: "b"}, {Children: nil}}, Next: &tree{Name: "c"}}, {Next: &tree{Name: "d"}}}
	for _, a := range trees {
		for _, b := range trees {
			same(t, a, b)
		}
	}
	same(t, tree{Name: "a", Children: []tree{{Name: "b"}, {Children: []tree{}}}, Next: &tree{Name: "c"}}, deep)
	quantities := []resource.Quantity{{}, resource.MustParse("1"), resource.MustParse("1.0"), resource.MustParse("1Mi"), resource.MustParse("123456789012345678901234567890")}
	for i := range quantities {
		printed := quantities[i].DeepCopy()
		_ = printed.String() // the message caches its size
		for _, other := range append(quantities, printed) {
			same(t, quantities[i], other)
			same(t, printed, other)
		}
	}
}

// mutate changes one value at a random place, and reports whether it did.
func mutate(v reflect.Value, pick func(n int) int, depth int) bool {
	if !v.CanSet() || depth > 20 {
		return false
	}
	switch v.Kind() { //nolint:exhaustive // enough to change a pod
	case reflect.Struct:
		for range 5 {
			if v.NumField() > 0 && mutate(v.Field(pick(v.NumField())), pick, depth+1) {
				return true
			}
		}
		return false
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			return true
		}
		if pick(4) == 0 {
			v.SetZero()
			return true
		}
		return mutate(v.Elem(), pick, depth+1)
	case reflect.Slice:
		switch {
		case v.IsNil():
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		case v.Len() == 0 || pick(4) == 0:
			v.SetZero()
		default:
			return mutate(v.Index(pick(v.Len())), pick, depth+1)
		}
		return true
	case reflect.String:
		v.SetString(v.String() + "x")
		return true
	case reflect.Bool:
		v.SetBool(!v.Bool())
		return true
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(v.Int() ^ 1)
		return true
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
			return true
		}
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
		return true
	}
	return false
}

func FuzzPods(f *testing.F) {
	for seed := range 200 {
		f.Add([]byte{byte(seed), byte(seed * 7), byte(seed * 31), byte(seed >> 2), 5, 9, byte(seed)}, byte(seed%4))
	}
	equal, compared := 0, 0
	f.Fuzz(func(t *testing.T, data []byte, changes byte) {
		fill := func() *v1.Pod {
			pod := &v1.Pod{}
			randfill.NewFromGoFuzz(data).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
				func(q *resource.Quantity, c randfill.Continue) {
					*q = *resource.NewQuantity(int64(c.Intn(1000)), resource.DecimalSI)
				},
				func(q *metav1.Time, c randfill.Continue) { *q = metav1.Unix(int64(c.Intn(1000)), 0) },
				func(*metav1.FieldsV1, randfill.Continue) {},
			).Fill(pod)
			return pod
		}
		a := fill()
		b := a.DeepCopy()
		at := 0
		pick := func(n int) int {
			at++
			if len(data) == 0 {
				return 0
			}
			return (int(data[at%len(data)]) + at) % n
		}
		for range changes % 3 {
			mutate(reflect.ValueOf(b).Elem(), pick, 0)
		}
		compared++
		if reflect.DeepEqual(a, b) {
			equal++
		}
		same(t, *a, *b)
		same(t, a.Spec, b.Spec)
		same(t, a.Status, b.Status)
	})
	f.Logf("%d of %d pods were equal", equal, compared)
}

func BenchmarkSpec(b *testing.B) {
	pod := &v1.Pod{}
	for range 3 {
		container := v1.Container{Name: "c", Image: "image"}
		for i := range 10 {
			container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("NAME_%d", i), Value: fmt.Sprintf("value-%d", i)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	other := &v1.Pod{} // with other strings of equal content
	if data, err := pod.Marshal(); err != nil || other.Unmarshal(data) != nil {
		b.Fatal(err)
	}
	b.Run("deepequal", func(b *testing.B) {
		for b.Loop() {
			if !Equal(&pod.Spec, &other.Spec) {
				b.Fatal("not equal")
			}
		}
	})
	b.Run("reflect", func(b *testing.B) {
		for b.Loop() {
			if !reflect.DeepEqual(&pod.Spec, &other.Spec) {
				b.Fatal("not equal")
			}
		}
	})
}
