package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// tokens has the users of a token file, by the hash of their token. So the time that a search takes tells
// nothing about a token.
type tokens map[[sha256.Size]byte]*user.DefaultInfo

// parseTokens parses the file of --token-auth-file: token,user,uid[,"group1,group2"].
//
// apiserver: pkg/authentication/token/tokenfile NewCSV, which ignores a line without a token.
func parseTokens(contents [][]byte) (tokens, error) {
	reader := csv.NewReader(bytes.NewReader(contents[0]))
	reader.FieldsPerRecord = -1
	found := make(tokens)
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			if parse, ok := errors.AsType[*csv.ParseError](err); ok { // the text of others could have a token
				err = fmt.Errorf("line %d: %w", parse.Line, parse.Err)
			}
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		switch {
		case len(record) < 3:
			return nil, fmt.Errorf("line %d: %d columns: expected token,user,uid and optionally groups", line, len(record))
		case record[0] == "":
			return nil, fmt.Errorf("line %d: the token is empty", line)
		case record[1] == "":
			return nil, fmt.Errorf("line %d: the user is empty", line)
		}
		hash := sha256.Sum256([]byte(record[0]))
		if found[hash] != nil {
			return nil, fmt.Errorf("line %d: the token is on another line too", line)
		}
		info := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			info.Groups = slices.DeleteFunc(strings.Split(record[3], ","), func(group string) bool { return group == "" })
		}
		found[hash] = info
	}
}

// tokenFile authenticates the tokens of a file.
type tokenFile struct{ *reloaded[tokens] }

// AuthenticateToken returns the user of a token.
func (f tokenFile) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	info := f.get()[sha256.Sum256([]byte(token))]
	if info == nil {
		return nil, false, nil
	}
	return &authenticator.Response{User: info}, true, nil
}
