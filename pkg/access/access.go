// Package access decides what a client sees of a pod.
//
//	policy := access.NewPolicy([]access.Rule{
//		{Users: []string{"agent"}, View: access.Redacted},
//		{Groups: []string{"admin"}, View: access.Full},
//	})
//	grant, err := policy.For(subject)
//	if err != nil {
//		return err
//	}
//	pod = grant.Of(source, pod).Apply(pod) // nil if the subject may not see it
//
// A [Policy] is a list of rules. [Policy.For] returns the [Grant] of a subject: the rules that
// apply to it. The grant has the [Form] of each pod: the first rule whose selectors match
// decides. A pod that no rule matches is hidden. Without rules, everything is shown.
//
// No subject is special: root sees what the rules show it.
package access

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Level is how much of a pod a client sees. A greater level has all that a smaller one has.
type Level int

// The levels.
const (
	// None hides the pod.
	None Level = iota
	// Metadata has names, UID, labels, node, and of the status whether and where the pod runs.
	Metadata
	// Redacted has all but the values of environment variables, args, commands, and the
	// annotations that the rule does not list. The names of secrets stay.
	Redacted
	// Full is the whole pod.
	Full
)

// levelNames has the names of the levels in the config file.
var levelNames = [...]string{None: "none", Metadata: "metadata", Redacted: "redacted", Full: "full"}

// expectedLevels names all levels in errors, the greatest first.
var expectedLevels = fmt.Sprintf("expected %v, %v, %v or %v", Full, Redacted, Metadata, None)

func (l Level) valid() bool { return l >= None && l <= Full }

// String returns the name of the level in the config file.
func (l Level) String() string {
	if !l.valid() {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return levelNames[l]
}

// ParseLevel returns the level with that name.
func ParseLevel(name string) (Level, error) {
	if i := slices.Index(levelNames[:], name); i >= 0 {
		return Level(i), nil
	}
	return None, fmt.Errorf("unknown view %q: %s", name, expectedLevels)
}

// Subject is who asks: the client process of a unix socket, or the authenticated user of a
// TCP connection.
type Subject struct {
	// Authenticated is true for the user of a TCP connection: User and Groups come from a certificate or a
	// token. Otherwise, they are names of this machine.
	Authenticated bool
	// User and Groups are names. For the client process of a unix socket, they may be empty:
	// a Policy that needs them reads the names of UID and GIDs from the system.
	User   string
	Groups []string
	// UID and GIDs are the IDs of the client process. GIDs has its supplementary groups, too. UID is nil
	// over TCP, and for a process whose user the daemon can't tell.
	UID  *uint32
	GIDs []uint32
}

// String describes the subject for errors and logs.
func (s *Subject) String() string {
	switch {
	case s.Authenticated:
		return fmt.Sprintf("authenticated user %q", s.User)
	case s.User != "" && s.UID != nil:
		return fmt.Sprintf("user %q (UID %d)", s.User, *s.UID)
	case s.User != "":
		return fmt.Sprintf("user %q", s.User)
	case s.UID != nil:
		return fmt.Sprintf("the user with UID %d", *s.UID)
	}
	return "an unknown user"
}

// Rule gives subjects a level for pods. A list that is empty restricts nothing.
type Rule struct {
	// Users, UIDs, Groups and GIDs are subjects of this machine. AuthenticatedUsers and
	// AuthenticatedGroups are subjects of certificates and tokens. A subject matches if it is in one of
	// these lists. If all are empty, every subject matches.
	Users, Groups                           []string
	UIDs, GIDs                              []uint32
	AuthenticatedUsers, AuthenticatedGroups []string
	// Sources and Namespaces restrict the pods, and so does LabelSelector, unless it is nil.
	Sources, Namespaces []string
	LabelSelector       labels.Selector
	// View is the level.
	View Level
	// Annotations are the keys of the annotations that stay at the level Redacted.
	Annotations []string
}

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
