package configfile

import (
	"fmt"
	"reflect"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/option"
)

// addFlags adds the flags of all options, except the options of the log. The flags set fields of config, which has all
// defaults. own has the values of flags that set more than one field.
func addFlags(flags *pflag.FlagSet, config *v1alpha1.PodConfigdConfiguration, own map[string]pflag.Value) {
	for i := range v1alpha1.Options {
		o := &v1alpha1.Options[i]
		if o.Flag == "" || flags.Lookup(o.Flag) != nil || o.IsOfLog() { // or it is the flag of another field
			continue
		}
		switch value := own[o.Flag]; {
		case value != nil:
			flags.Var(value, o.Flag, o.Help)
		default:
			bind(flags, o, o.In(config).Addr().Interface())
		}
		setSection(flags, o.Section, o.Flag)
	}
}

// setSection puts flags under a heading of the help.
func setSection(flags *pflag.FlagSet, section string, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, option.SectionKey, []string{section}) // fails only if there is no such flag
	}
}

// bind adds the flag of an option. field is a pointer to the field that it sets.
func bind(flags *pflag.FlagSet, o *option.Option, field any) {
	switch p := field.(type) {
	case *string:
		flags.StringVar(p, o.Flag, *p, o.Help)
	case **string:
		flags.StringVar(*p, o.Flag, **p, o.Help)
	case *bool:
		flags.BoolVar(p, o.Flag, *p, o.Help)
	case **bool:
		flags.BoolVar(*p, o.Flag, **p, o.Help)
	case **int32:
		flags.Int32Var(*p, o.Flag, **p, o.Help)
	case **int64:
		flags.Int64Var(*p, o.Flag, **p, o.Help)
	case **metav1.Duration:
		flags.DurationVar(&(*p).Duration, o.Flag, (*p).Duration, o.Help)
	case *[]string:
		flags.StringArrayVar(p, o.Flag, *p, o.Help)
	case *map[string][]string:
		flags.Var(cliflag.NewColonSeparatedMultimapStringString(p), o.Flag, o.Help)
	case **intstr.IntOrString:
		flags.Var(intOrString{p}, o.Flag, o.Help)
	default:
		panic(fmt.Sprintf("%s has type %v, for which there is no flag", o.Path, reflect.TypeOf(field).Elem()))
	}
}

// intOrString is the value of a flag that is a number, or a text such as 50%. Empty is none.
type intOrString struct{ value **intstr.IntOrString }

func (v intOrString) String() string {
	if v.value == nil || *v.value == nil {
		return ""
	}
	return (*v.value).String()
}

// Set takes a number or a text.
func (v intOrString) Set(text string) error {
	*v.value = nil
	if text != "" {
		*v.value = new(intstr.Parse(text))
	}
	return nil
}

// Type is the name of the value in the help.
func (v intOrString) Type() string { return "string" }
