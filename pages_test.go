package threeds_test

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestArchitectureIsShort: a newcomer reads the page in three minutes. What is longer belongs to a page in docs/design.
func TestArchitectureIsShort(t *testing.T) {
	if n := len(text(t, "ARCHITECTURE.md")); n > 12<<10 {
		t.Errorf("ARCHITECTURE.md has %d bytes, want %d at most", n, 12<<10)
	}
}

// TestDesignPagesAreListed: ARCHITECTURE.md leads to each page in docs/design, and the page begins with the
// question that it answers.
func TestDesignPagesAreListed(t *testing.T) {
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	list := text(t, "ARCHITECTURE.md")
	for _, page := range pages {
		if !strings.Contains(list, "("+filepath.ToSlash(page)+")") {
			t.Errorf("ARCHITECTURE.md has no link to %s", page)
		}
		_, rest, _ := strings.Cut(text(t, page), "\n\n")
		if first, _, _ := strings.Cut(rest, "\n\n"); !strings.Contains(first, "?") {
			t.Errorf("%s begins with no question: %q", page, first)
		}
	}
	if len(pages) < 10 {
		t.Errorf("%d design pages, fewer than there must be", len(pages))
	}
}

// TestPatroniPageHasTheFilesOfTheRun: readers of docs/operating/patroni.md copy the files with which the
// failovers of the page were measured, the nodes' URL is that of docs/nodes.md, and the settings are ones with
// which nothing is lost.
func TestPatroniPageHasTheFilesOfTheRun(t *testing.T) {
	page, settings := text(t, "docs/operating/patroni.md"), text(t, "deploy/patroni/patroni.yml")
	for block, file := range map[string]string{"": text(t, "deploy/patroni/etcd"), "yaml": settings} {
		if !strings.Contains(page, "```"+block+"\n"+file+"```\n") {
			t.Errorf("the page has another file than deploy/patroni: it has no\n%s", file)
		}
	}
	url := regexp.MustCompile(`(?m)^store: .*target_session_attrs=read-write"}$`)
	if here, there := url.FindString(page), url.FindString(text(t, "docs/nodes.md")); here == "" || here != there {
		t.Errorf("store is %s here, and %s in docs/nodes.md", here, there)
	}
	var file struct {
		Bootstrap struct {
			DCS struct {
				TTL          int  `yaml:"ttl"`
				LoopWait     int  `yaml:"loop_wait"`
				RetryTimeout int  `yaml:"retry_timeout"`
				Synchronous  bool `yaml:"synchronous_mode"`
				Strict       bool `yaml:"synchronous_mode_strict"`
				Standbys     int  `yaml:"synchronous_node_count"`
			} `yaml:"dcs"`
		} `yaml:"bootstrap"`
	}
	if err := yaml.Unmarshal([]byte(settings), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Bootstrap.DCS
	if !s.Synchronous || !s.Strict || s.Standbys != 2 {
		t.Errorf("a commit that no standby has is confirmed: %+v", s)
	}
	if s.RetryTimeout < 2 || s.TTL < s.LoopWait+2*s.RetryTimeout {
		t.Errorf("want ttl of at least loop_wait and twice retry_timeout, and that of at least 2, not %+v", s)
	}
}

// TestEveryPageIsLinked: readers find each page in docs/ by a link from another one.
func TestEveryPageIsLinked(t *testing.T) {
	var pages []string
	linked := map[string]bool{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "web/*/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	link := regexp.MustCompile(`\]\(([^)\s#]+\.md)`)
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(text(t, page), -1) {
			if to := path.Join(path.Dir(filepath.ToSlash(page)), m[1]); to != filepath.ToSlash(page) {
				linked[to] = true
			}
		}
	}
	for _, page := range pages {
		if strings.HasPrefix(page, "docs") && !linked[filepath.ToSlash(page)] {
			t.Errorf("no page has a link to %s", page)
		}
	}
}
