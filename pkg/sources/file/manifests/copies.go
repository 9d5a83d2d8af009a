package manifests

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/podconfigd/podconfigd/internal/lazyregexp"
)

// extension is how the name of a manifest usually ends.
const extension = `\.(?:ya?ml|json|manifest)`

// copies are the names that look like a copy of another file. The pattern has that file's name in its groups.
// docs/how-to/manifests.md lists them.
var copies = []struct {
	// maker makes such files, and examples are some of them.
	maker, examples string
	pattern         func() *regexp.Regexp
}{
	{"Emacs", "#web.yaml#", lazyregexp.New(`^#(.+)#$`)},
	{"editors", "web.yaml~ web~", lazyregexp.New(`^(.+)~$`)},
	{
		"sed -i.orig, cp, mktemp, rpm, dpkg, pacman and JetBrains",
		"web.yaml.bak web.yaml.orig web.yaml.old web.yaml.save web.yaml.swp web.yaml.disabled web.yaml.rpmnew web.yaml.rpmsave " +
			"web.yaml.dpkg-dist web.yaml.dpkg-old web.yaml.ucf-dist web.yaml.pacnew web.yaml.1 web.yaml.2026-11-27 web.yaml.tmp.4711 web.yaml_old web.yaml-x web.yaml___jb_tmp___",
		lazyregexp.New(`(?i)^(.+` + extension + `)[^A-Za-z0-9].*$`),
	},
	{
		"the same, without the extension", "web.bak web.tmp web.swp web.rpmnew",
		lazyregexp.New(`(?i)^(.+)\.(?:` + mark + `|sw[a-p]|part(?:ial)?|cfsaved|aug(?:new|save)|rpm(?:new|save|orig)|(?:dpkg|ucf)-[a-z]+|pac(?:new|save|orig)|apk-new)$`),
	},
	{
		"people", "backup-web.yaml bak.web.yaml copy-of-web.yaml old_web.yaml tmp-web.yaml",
		lazyregexp.New(`(?i)^(?:` + mark + `)(?:[-_. ]of)?[-_. ](.+)$`),
	},
	{
		"people and file managers", "web-backup.yaml web.bak.yaml web_old.yaml web-copy.yaml",
		lazyregexp.New(`(?i)^(.+?)(?: -)?[-_. ](?:` + mark + `)(?:[-_. ]?[0-9]+)?(` + extension + `)$`),
	},
	{
		"file managers, Dropbox and Syncthing", "web(1).yaml web.sync-conflict-20261127-101500-ABCDEFG.yaml",
		lazyregexp.New(`(?i)^(.+?)(?: ?\((?:[0-9]+|[^)]*copy[^)]*)\)|[.]sync-conflict-[^.]+)(` + extension + `)?$`),
	},
	{
		"backups with a date, or with the seconds of date +%s",
		"web-2026.yaml web-2026-11-27.yaml web.20261127.yaml web_2026-11-27T10:15 web-20261127 web-1795798800.yaml",
		lazyregexp.New(`(?i)^(.+?)[-_.](?:20[0-9]{2}(?:(?:[0-9]{4}|[^0-9]).*?)??|[12][0-9]{9})(` + extension + `)?$`),
	},
	{
		"backups that begin with a date", "2026-11-27-web.yaml 20261127_web.yaml 20261127-1015-web.yaml",
		lazyregexp.New(`^20[0-9]{2}(?:[0-9]{4}|-[0-9]{2}-[0-9]{2})(?:[-_.T][0-9:.-]*[0-9])?[-_ ](.+)$`),
	},
}

// mark is the words that mark a copy.
const mark = `bak|backup|copy|orig|original|old|prev(?:ious)?|new|sav|saved?|te?mp|disabled?|off`

// copyOf returns the name that a name looks like a copy of; empty if it does not look like one.
func copyOf(name string) (of string) {
	for again := true; again; {
		again = false
		for _, c := range copies {
			if groups := c.pattern().FindStringSubmatch(name); groups != nil {
				name = strings.Join(groups[1:], "")
				of, again = name, true
				break
			}
		}
	}
	return of
}

// bare returns a name without the extension of manifests, and whether it has one.
func bare(name string) (string, bool) {
	switch extension := filepath.Ext(name); strings.ToLower(extension) {
	case ".yaml", ".yml", ".json", ".manifest":
		return strings.TrimSuffix(name, extension), true
	}
	return name, false
}

// sameName reports whether two names differ at most in the extension.
func sameName(a, b string) bool {
	a, _ = bare(a)
	b, _ = bare(b)
	return a == b
}
