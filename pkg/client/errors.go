package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RefusedError is an error response of the daemon.
type RefusedError struct {
	// Code is the HTTP status.
	Code    int
	Message string
}

// Error returns the message of the daemon. Over TCP, an error of the credentials, or of
// another server, also has the request.
func (e *RefusedError) Error() string { return e.Message }

// maxError is how much is read of an error response.
const maxError = 1 << 20

// readRefusal returns the message of an error response, or its body if podconfigd did not
// send it.
func readRefusal(resp *http.Response) (message string, body []byte) {
	body, _ = io.ReadAll(io.LimitReader(resp.Body, maxError)) // part of it is enough
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return "", body
	}
	return status.Message, nil
}

func (u *unixSocket) refused(resp *http.Response) error {
	message, _ := readRefusal(resp)
	if message == "" {
		message = resp.Status
	}
	return &RefusedError{Code: resp.StatusCode, Message: message}
}

// withoutURL returns the error of a request without the URL of the request.
func withoutURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}
