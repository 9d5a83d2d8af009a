package kubeapi

import (
	"encoding/base64"
	"encoding/json"
)

// continuation is what the parameter continue holds.
type continuation struct {
	Revision int64 `json:"rv"`
	// Namespace and Name are those of the last pod that was told.
	Namespace string `json:"ns"`
	Name      string `json:"name"`
}

func (c *continuation) String() string {
	data, _ := json.Marshal(c) // of strings and a number
	return base64.RawURLEncoding.EncodeToString(data)
}
