// Package option describes the options of the daemon in one table.
//
//	path := "fileSources[1].path"
//	fmt.Println(v1alpha1.Options.Flag(path), v1alpha1.Options.Check(config))
//
// The table is generated from the type of the configuration file, where an option is one field with its
// comment and its markers. The defaults, the flags and their help, the checks of ranges, and what a reload
// does follow from the table.
package option

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/jsonfields"
)

// Option is one option.
type Option struct {
	// Path is the path of the field in the file, for example authentication.webhook.cacheTTL.
	Path string
	// Flag is the flag without dashes; empty if there is none. Two fields can have one flag.
	Flag string
	// Section is the heading of the flag in the help.
	Section string
	// Help is the help of the flag.
	Help string
	// Default is the default, as a flag has it; empty if it is the zero value.
	Default string
	// Min and Max are the limits of a number or of a duration; empty without limits.
	Min, Max string
	// Values are all values of a closed set.
	Values []string
	// Reload groups the options that a part of the daemon takes while it runs; empty if none does.
	Reload string
}

// SectionKey is the annotation of a flag that has its heading in the help.
const SectionKey = "section"

// IsOfLog reports whether the option belongs to the log. The package of the log adds its flag and applies its value.
func (o *Option) IsOfLog() bool { return strings.HasPrefix(o.Path, "logging.") }

// Table has all options, in the order of the file.
type Table []Option

// Of returns the option with the path, or the option that the path leads into. The rest is the end of the
// path after the option, such as [1].path.
func (t Table) Of(path string) (o *Option, rest string) {
	for i := range t {
		if rest, ok := Below(path, t[i].Path); ok {
			return &t[i], rest
		}
	}
	return nil, ""
}

// Flag returns the flag of a path, without dashes; empty if there is none.
func (t Table) Flag(path string) string {
	if o, _ := t.Of(path); o != nil {
		return o.Flag
	}
	return ""
}

// Below returns the path after the name of a field, or after the key of a map, if the path begins with it.
func Below(path, name string) (rest string, ok bool) {
	if rest, ok := strings.CutPrefix(path, "["+name+"]"); ok {
		return rest, true
	}
	rest, ok = strings.CutPrefix(path, name)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// In returns the field of the option in a configuration, which is a pointer to a struct.
func (o *Option) In(config any) reflect.Value {
	return field(reflect.ValueOf(config).Elem(), o.Path)
}

// field returns the field of a struct at the path of JSON names.
func field(object reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		found, ok := jsonfields.Of(object.Type())[name]
		if !ok {
			panic("type " + object.Type().Name() + " has no field " + name + ": run make generate")
		}
		object = object.FieldByIndex(found.Index)
	}
	return object
}

// Copy copies the value of the option from one configuration to another.
func (o *Option) Copy(to, from any) { o.In(to).Set(o.In(from)) }

// Same reports whether two configurations have the same value. An empty list is the same as none.
func (o *Option) Same(a, b any) bool {
	x, y := o.In(a), o.In(b)
	switch x.Kind() { //nolint:exhaustive // all others have no length
	case reflect.Slice, reflect.Map:
		if x.Len() == 0 && y.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}

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
