package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// The status is the same object as over HTTP: the protobuf messages have all its fields.
func TestStatusHasEveryField(t *testing.T) {
	var whole v1alpha1.Status
	fill(reflect.ValueOf(&whole).Elem(), new(int64(0)))
	want, err := json.Marshal(&whole)
	if err != nil {
		t.Fatal(err)
	}
	message := new(podconfigd.StatusResponse)
	if err := protojson.Unmarshal(want, message); err != nil {
		t.Fatal(err)
	}
	got, err := protojson.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b, cmp.FilterPath(func(p cmp.Path) bool { return true }, cmp.Comparer(func(x, y any) bool {
		return fmt.Sprint(x) == fmt.Sprint(y) // large numbers are strings in protobuf's JSON
	}))); diff != "" {
		t.Error(diff)
	}

	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	status, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Status(t.Context(), &podconfigd.StatusRequest{})
	if err != nil || status.GetPods() != 1 || status.GetInstance() != d.journal.State().Instance {
		t.Errorf("got %v, %v", status, err)
	}
}

// fill sets every field to a value that is not zero.
func fill(v reflect.Value, n *int64) {
	*n++
	if _, ok := reflect.TypeAssert[time.Time](v); ok {
		v.Set(reflect.ValueOf(time.Unix(1e9+*n, 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		v.SetInt(*n)
	}
}
