package kubeapi

import (
	"encoding/base64"
	"encoding/json"
)

// continuation is the content of the parameter continue.
type continuation struct {
	Revision int64 `json:"rv"`
	// Namespace and Name identify the last object of the previous page.
	Namespace string `json:"ns"`
	Name      string `json:"name"`
}

func (c *continuation) String() string {
	data, _ := json.Marshal(c) // never fails for strings and a number
	return base64.RawURLEncoding.EncodeToString(data)
}
