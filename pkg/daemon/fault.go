package daemon

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// FieldName is the path of a field of the configuration file. A field of a field has dots, and an item of a
// list its index: fileSources[1].path.
type FieldName string

// String returns the flag that sets the field, or the path if there is no flag.
func (n FieldName) String() string {
	if flag := v1alpha1.Options.Flag(string(n)); flag != "" {
		return "--" + flag
	}
	return string(n)
}

// FieldError is a fault of a field of the configuration. Its text names fields by their flags. Text and
// Fields are for a configuration that is not from flags.
type FieldError struct {
	// Field is the faulty field; empty if the fault is not that of one field.
	Field FieldName
	// format and args are the message. An arg can be a FieldName.
	format string
	args   []any
}

// Error returns the fault with the flag of its field in front.
func (e *FieldError) Error() string {
	message := e.Text(FieldName.String)
	if e.Field != "" {
		message = e.Field.String() + ": " + message
	}
	return message
}

// Text returns the message without the field of the fault. It names other fields with the
// function.
func (e *FieldError) Text(name func(FieldName) string) string {
	args := slices.Clone(e.args)
	for i, arg := range args {
		if field, ok := arg.(FieldName); ok {
			args[i] = name(field)
		}
	}
	return fmt.Errorf(e.format, args...).Error()
}

// Fields returns the faulty field, and then the fields that the message names.
func (e *FieldError) Fields() (fields []FieldName) {
	if e.Field != "" {
		fields = append(fields, e.Field)
	}
	for _, arg := range e.args {
		if field, ok := arg.(FieldName); ok {
			fields = append(fields, field)
		}
	}
	return fields
}

// Unwrap returns the cause, or nil.
func (e *FieldError) Unwrap() error { return errors.Unwrap(fmt.Errorf(e.format, e.args...)) }

// faults are the faults of a configuration.
type faults []error

// has reports whether the field has a fault.
func (f *faults) has(field FieldName) bool {
	return slices.ContainsFunc(*f, func(err error) bool { fault, ok := errors.AsType[*FieldError](err); return ok && fault.Field == field })
}

// addFault adds a fault of the field. Args that are fields appear by their flag or by their path
// in the config file, as the configuration was made.
func (f *faults) addFault(field FieldName, format string, args ...any) {
	*f = append(*f, &FieldError{Field: field, format: format, args: args})
}
