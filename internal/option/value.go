package option

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetDefaults sets the options of a configuration that are left out.
func (t Table) SetDefaults(config any) {
	for i := range t {
		o := &t[i]
		if o.Default == "" {
			continue
		}
		if f := o.In(config); f.IsNil() {
			f.Set(reflect.New(f.Type().Elem()))
			o.parse(f.Elem())
		}
	}
}

// parse sets the field to the default.
func (o *Option) parse(f reflect.Value) {
	var err error
	switch p := f.Addr().Interface().(type) {
	case *metav1.Duration:
		p.Duration, err = time.ParseDuration(o.Default)
	case *string:
		*p = o.Default
	case *bool:
		*p, err = strconv.ParseBool(o.Default)
	default:
		var n int64
		n, err = strconv.ParseInt(o.Default, 10, f.Type().Bits())
		f.SetInt(n)
	}
	if err != nil {
		panic(fmt.Sprintf("the default of %s: %v", o.Path, err))
	}
}

// Fault is a value that is out of range.
type Fault struct{ Path, Message string }

// Check returns the options of a configuration that are out of their range. All defaults must be set.
func (t Table) Check(config any) (faults []Fault) {
	for i := range t {
		o := &t[i]
		if message := o.check(o.In(config)); message != "" {
			faults = append(faults, Fault{o.Path, message})
		}
	}
	return faults
}

func (o *Option) check(f reflect.Value) string {
	if f.Kind() == reflect.Pointer {
		if f = f.Elem(); !f.IsValid() {
			return "" // none is the default
		}
	}
	switch {
	case len(o.Values) > 0:
		if value := f.String(); value != "" && !slices.Contains(o.Values, value) {
			return fmt.Sprintf("%q is unknown: expected %s", value, anyOf(o.Values))
		}
	case o.Min == "" || f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[metav1.Duration]():
	case f.Kind() == reflect.Struct:
		value := f.Interface().(metav1.Duration).Duration //nolint:errcheck // see the case before
		least, _ := time.ParseDuration(o.Min)
		most, _ := time.ParseDuration(o.Max)
		return outside(value, least, most, "short", "long")
	default:
		least, _ := strconv.ParseInt(o.Min, 10, 64)
		most, _ := strconv.ParseInt(o.Max, 10, 64)
		return outside(f.Int(), least, most, "small", "large")
	}
	return ""
}

func outside[T int64 | time.Duration](value, least, most T, less, more string) string {
	switch {
	case value < least:
		return fmt.Sprintf("%v is too %s: expected %v or more", value, less, least)
	case value > most:
		return fmt.Sprintf("%v is too %s: expected %v or less", value, more, most)
	}
	return ""
}

// anyOf returns a list such as "a, b or c".
func anyOf(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}
