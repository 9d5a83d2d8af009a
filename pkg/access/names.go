package access

import (
	"errors"
	"os/user"
	"strconv"
	"sync"
	"time"
)

// ErrNames means that the names of a subject can't be read now, so that it is not known which rules apply
// to it.
var ErrNames = errors.New("reading the names")

// Names gives the names of users and groups. A user or group without a name has an empty one. An error
// means that the name can't be read. It is safe for concurrent use.
type Names interface {
	User(uid uint32) (string, error)
	Group(gid uint32) (string, error)
}

// system has the names of the system. A static binary reads them from /etc/passwd and
// /etc/group: users and groups of a directory service have no names there.
var system Names = &systemNames{
	users: nameCache{find: func(id string) (string, error) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	}},
	groups: nameCache{find: func(id string) (string, error) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	}},
}

type systemNames struct{ users, groups nameCache }

func (s *systemNames) User(uid uint32) (string, error)  { return s.users.nameOf(uid, time.Now()) }
func (s *systemNames) Group(gid uint32) (string, error) { return s.groups.nameOf(gid, time.Now()) }

const (
	// nameTTL is how long a name is cached, also that there is none.
	nameTTL = 10 * time.Second
	// maxNames is the maximum number of cached names.
	maxNames = 4096
)

// nameCache caches names.
type nameCache struct {
	find func(id string) (string, error)

	mu    sync.Mutex
	known map[uint32]cachedName
}

type cachedName struct {
	name  string
	until time.Time
}

// nameOf returns the name of an ID.
func (c *nameCache) nameOf(id uint32, now time.Time) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.known[id]; ok && now.Before(found.until) {
		return found.name, nil
	}
	name, err := c.find(strconv.FormatUint(uint64(id), 10))
	_, noUser := errors.AsType[user.UnknownUserIdError](err)
	_, noGroup := errors.AsType[user.UnknownGroupIdError](err)
	switch {
	case noUser, noGroup:
		name = ""
	case err != nil:
		return "", err
	}
	if c.known == nil || len(c.known) >= maxNames {
		c.known = make(map[uint32]cachedName)
	}
	c.known[id] = cachedName{name, now.Add(nameTTL)}
	return name, nil
}
