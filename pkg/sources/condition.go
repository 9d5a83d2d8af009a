package sources

import "time"

// Condition is whether a source can read, as every source's status has it.
type Condition struct {
	// Degraded: it can't, and the last set is held; since when.
	Degraded      bool       `json:"degraded,omitempty"`
	DegradedSince *time.Time `json:"degradedSince,omitempty"`
	// LastError is why it can't.
	LastError string `json:"lastError,omitempty"`
	// LastChange is when the last set was sent.
	LastChange *time.Time `json:"lastChange,omitempty"`
}

// Failed notes an error, and tells whether it is another one than the last.
func (c *Condition) Failed(err error) bool {
	if !c.Degraded {
		now := time.Now()
		c.Degraded, c.DegradedSince = true, &now
	}
	other := c.LastError != err.Error()
	c.LastError = err.Error()
	return other
}

// Succeeded notes that the source can read.
func (c *Condition) Succeeded() {
	c.Degraded, c.DegradedSince, c.LastError = false, nil, ""
}

// Changed notes that a set was sent.
func (c *Condition) Changed() {
	now := time.Now()
	c.LastChange = &now
}
