package manifests

import (
	"os"
	"strings"
	"testing"
)

// exampleCopies has names for each of copies.
var exampleCopies = []string{
	"#web.yaml#",
	"web.yaml~ web~",
	"web.yaml.bak web.yaml.orig web.yaml.old web.yaml.save web.yaml.swp web.yaml.disabled web.yaml.rpmnew web.yaml.rpmsave web.yaml.dpkg-dist web.yaml.dpkg-old web.yaml.ucf-dist web.yaml.pacnew web.yaml.1 web.yaml.2026-11-27 web.yaml.tmp.4711 web.yaml_old web.yaml-x web.yaml___jb_tmp___",
	"web.bak web.tmp web.swp web.rpmnew",
	"backup-web.yaml bak.web.yaml copy-of-web.yaml old_web.yaml tmp-web.yaml",
	"web-backup.yaml web.bak.yaml web_old.yaml web-copy.yaml",
	"web(1).yaml web.sync-conflict-20261127-101500-ABCDEFG.yaml",
	"web-2026.yaml web-2026-11-27.yaml web.20261127.yaml web_2026-11-27T10:15 web-20261127 web-1795798800.yaml",
	"2026-11-27-web.yaml 20261127_web.yaml 20261127-1015-web.yaml",
}

// Each example of the table looks like a copy of web.yaml, and the documentation has it.
func TestTheTableOfCopies(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/how-to/manifests.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, pattern := range copies {
		for example := range strings.FieldsSeq(exampleCopies[i]) {
			of := copyOf(example)
			if name, _ := bare(of); name != "web" {
				t.Errorf("%s looks like a copy of %q", example, of)
			}
			if !pattern.MatchString(example) {
				t.Errorf("%s is in the wrong row", example)
			}
			if !strings.Contains(string(text), "`"+example+"`") {
				t.Errorf("docs/how-to/manifests.md does not have `%s`", example)
			}
		}
	}
}

func TestCopyOf(t *testing.T) {
	for name, want := range map[string]string{
		"web.yaml": "", "web": "", "web.yml": "", "web.json": "", "web-v2.yaml": "", "web2.yaml": "", "web-1.yaml": "", "kube-proxy.manifest": "",
		"00-web.yaml": "", "web-canary.yaml": "", "newweb.yaml": "", "web-20.yaml": "", "web-20260.yaml": "", "bold-web.yaml": "", "web-gold.yaml": "",
		"web-179579880.yaml": "", "web-17957988001.yaml": "", "2026-web.yaml": "", "2026-11-web.yaml": "", "20261127.yaml": "", "1795798800-web.yaml": "",
		"~": "", "##": "", ".bak": "", "2026.yaml": "", "приложение": "", "-rf": "",
		"web.yaml.bak~": "web.yaml", "#web.yaml.bak#": "web.yaml", "web.yaml.~1~": "web.yaml", "backup-web-2026.yaml": "web.yaml", "web.yaml.2026-11-27.bak": "web.yaml",
		"Backup of web.yaml": "web.yaml", "Copy of web.yaml": "web.yaml", "web - Copy.yaml": "web.yaml", "web copy 2.yaml": "web.yaml", "web (copy).yaml": "web.yaml",
		"web (node1's conflicted copy 2026-11-27).yaml": "web.yaml", "WEB.YAML.BAK": "WEB.YAML", "w.tmp": "w", "web.yaml.a1B2c3": "web.yaml",
		"2026-11-27T10:15:00-web.yaml": "web.yaml", "20261127-web.yaml.bak": "web.yaml", "web-prev.yaml": "web.yaml", "web.sav": "web", "web.1795798800": "web",
	} {
		if got := copyOf(name); got != want {
			t.Errorf("%s looks like a copy of %q, want %q", name, got, want)
		}
	}
}
