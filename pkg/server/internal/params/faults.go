package params

import (
	"errors"
	"fmt"
)

// faults are the faults of a request.
type faults struct {
	// fields has the names of the fields of a message that differ from those of HTTP; nil for a query.
	fields map[string]string
	errs   []error
}

// add adds the fault of a parameter, which has its name of HTTP. The request itself has an empty name.
// An error that is nil is no fault.
func (f *faults) add(name string, err error) {
	if err == nil {
		return
	}
	field, ok := f.fields[name]
	switch {
	case f.fields == nil && name != "":
		err = fmt.Errorf("parameter %q: %w", name, err)
	case ok:
		err = fmt.Errorf("%s: %w", field, err)
	case name != "":
		err = fmt.Errorf("%s: %w", name, err)
	}
	f.errs = append(f.errs, err)
}

// err returns all faults; nil for none.
func (f *faults) err() error { return errors.Join(f.errs...) }
