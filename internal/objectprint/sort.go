package objectprint

import (
	"cmp"
	"fmt"
	"reflect"
	"sort"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Sort sorts objects by the field of a JSONPath expression, in the order of kubectl: objects
// without the field come first, in reverse order.
//
// kubectl: pkg/cmd/get sorter.go SortObjects.
func Sort(objects []unstructured.Unstructured, field string) error {
	path, err := parsePath(field)
	if err != nil {
		return fmt.Errorf("sorting: %w", err)
	}
	type keyed struct {
		object unstructured.Unstructured
		key    any
		found  bool
	}
	all := make([]keyed, len(objects))
	some := false
	for i := range objects {
		results, err := path.FindResults(objects[i].Object)
		if err != nil {
			return fmt.Errorf("sorting by %s: %w", field, err)
		}
		all[i].object = objects[i]
		if len(results) > 0 && len(results[0]) > 0 {
			all[i].key, all[i].found, some = valueOf(results[0][0]), true, true
		}
	}
	if !some && len(all) > 0 {
		return fmt.Errorf("sorting by %s: no object has this field", field)
	}
	var failed error
	sort.Slice(all, func(i, j int) bool {
		if !all[i].found || !all[j].found {
			return !all[i].found
		}
		order, err := compare(all[i].key, all[j].key)
		failed = cmp.Or(failed, err)
		return order < 0
	})
	if failed != nil {
		return fmt.Errorf("sorting by %s: %w", field, failed)
	}
	for i := range all {
		objects[i] = all[i].object
	}
	return nil
}

func valueOf(v reflect.Value) any {
	if !v.IsValid() || !v.CanInterface() {
		return nil
	}
	return v.Interface()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// compare compares values of JSON. Strings that are quantities are compared as such.
func compare(a, b any) (int, error) {
	switch a := a.(type) {
	case nil:
		return compareBool(false, b != nil), nil
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b), nil
		}
	case float64:
		if b, ok := b.(float64); ok {
			return cmp.Compare(a, b), nil
		}
	case string:
		if b, ok := b.(string); ok {
			return compareText(a, b), nil
		}
	}
	if b == nil {
		return 1, nil
	}
	return 0, fmt.Errorf("values of the types %T and %T have no order", a, b)
}

func compareText(a, b string) int {
	quantityA, errA := resource.ParseQuantity(a)
	quantityB, errB := resource.ParseQuantity(b)
	if errA != nil || errB != nil {
		return cmp.Compare(a, b)
	}
	return quantityA.Cmp(quantityB)
}
