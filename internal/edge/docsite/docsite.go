// Package docsite makes a site of the documentation: pages, a search that needs no server, the text of each page in
// Markdown, and the description of the API. Use [New], and serve the [Site] or write it with [Site.Export]. Programs
// search with [Site.Search].
//
// A page loads nothing from outside and works without its script. Links are relative, so an exported site works below
// any address, and from a disk.
package docsite

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/docs"
	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/edge/lanes"
)

// Path is where a site is served.
const Path = "/docs/"

// These are served at the root, too, where programs look for them.
const (
	llmsPath    = "llms.txt"
	openAPIPath = "openapi.json"
)

//go:embed assets templates
var assets embed.FS

// A Site is the documentation as files. It makes each of them when it is first asked for, and is safe for concurrent
// use.
type Site struct {
	pages     []*page
	byName    map[string]*page // by the name of the Markdown
	files     map[string]*file // by the path below [Path]
	rootLLMs  *file
	templates map[string]*template.Template
	ranking   func() (*ranking, error)
	sandbox   *sandbox // nil if the site is served by none
	checker   checker
}

// A sandbox is one that serves the site, so that readers can send requests from the page with every operation.
type sandbox struct {
	Key string // the API key that the page offers; "" if it is for those alone who started the sandbox
}

// A file is one of the site.
type file struct {
	mediaType string
	content   func() ([]byte, error)
	served    func() (*compress.File, error)
	policy    func() (string, error) // what it may load
}

func newFile(mediaType string, make func() ([]byte, error)) *file {
	content := sync.OnceValues(make)
	f := &file{mediaType: mediaType, content: content, policy: func() (string, error) { return policy, nil }}
	f.served = sync.OnceValues(func() (*compress.File, error) {
		data, err := content()
		return compress.NewFile(mediaType, data), err
	})
	if mediaType == svgType {
		f.policy = sync.OnceValues(f.picturePolicy)
	}
	return f
}

// A page is one page of Markdown.
type page struct {
	name    string // name is the path of the Markdown below docs/.
	path    string // path is where the page is below [Path].
	area    *docs.Area
	source  []byte
	content func() (*content, error)
}

// New returns the site of the pages that this program has.
func New() (*Site, error) { return newSite(nil, builtChecker) }

// NewInSandbox returns the site for a sandbox that serves it at [Path] of the address of its API. On the page with
// every operation, readers can send requests to it. The page offers the API key to everybody; "" offers none.
func NewInSandbox(key string) (*Site, error) { return newSite(&sandbox{key}, builtChecker) }

func newSite(box *sandbox, checkerFolder fs.FS) (*Site, error) {
	s := &Site{byName: map[string]*page{}, files: map[string]*file{}, sandbox: box}
	for _, area := range docs.Areas() {
		for _, section := range area.Sections {
			for _, name := range section.Pages {
				if err := s.addPage(&area, name); err != nil {
					return nil, err
				}
			}
		}
	}
	s.addHTML("index.html", "home", s.frame)
	s.addHTML("search.html", "search", s.frame)
	s.addHTML(operationsPath, "operations", s.operationsFrame)
	s.files[operationsPath].policy = func() (string, error) { return s.operationsPolicy(), nil }
	s.add(llmsPath, "text/plain; charset=utf-8", func() ([]byte, error) { return s.llms("") })
	s.add("index.md", markdownType, func() ([]byte, error) { return s.llms("") })
	s.rootLLMs = newFile("text/plain; charset=utf-8", func() ([]byte, error) { return s.llms("docs/") })
	s.add("openapi.yaml", "application/yaml", func() ([]byte, error) { return docs.Files.ReadFile("openapi.yaml") })
	s.add(openAPIPath, "application/json", func() ([]byte, error) {
		text, err := docs.Files.ReadFile("openapi.yaml")
		if err != nil {
			return nil, err
		}
		return yaml.YAMLToJSON(text)
	})
	s.add("assets/docs.css", "text/css; charset=utf-8", func() ([]byte, error) {
		own, err := assets.ReadFile("assets/docs.css")
		return slices.Concat(lanes.Tokens(), lanes.Base(), own), err
	})
	s.add("assets/index.js", scriptType, s.index)
	s.add("assets/search.js", scriptType, func() ([]byte, error) { return assets.ReadFile("assets/search.js") })
	s.add("assets/reference.js", scriptType, func() ([]byte, error) { return assets.ReadFile("assets/reference.js") })
	if box != nil {
		s.add("assets/try.js", scriptType, func() ([]byte, error) { return assets.ReadFile("assets/try.js") })
	}
	s.add("assets/mark.svg", svgType, func() ([]byte, error) { return assets.ReadFile("assets/mark.svg") })
	for pattern, mediaType := range map[string]string{"images/flows/*.svg": svgType, pagePictures + "*.png": pngType} {
		pictures, err := fs.Glob(docs.Files, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range pictures {
			s.add(name, mediaType, func() ([]byte, error) { return docs.Files.ReadFile(name) })
		}
	}
	s.ranking = sync.OnceValues(s.newRanking)
	return s, errors.Join(s.addChecker(checkerFolder), s.parseTemplates())
}

const (
	markdownType = "text/markdown; charset=utf-8"
	scriptType   = "text/javascript; charset=utf-8"
	svgType      = "image/svg+xml"
	pngType      = "image/png"
)

func (s *Site) add(path, mediaType string, make func() ([]byte, error)) {
	s.files[path] = newFile(mediaType, make)
}

// addPage adds a page and its Markdown.
func (s *Site) addPage(area *docs.Area, name string) error {
	source, err := docs.Files.ReadFile(name)
	if err != nil {
		return err
	}
	p := &page{name: name, path: pathOf(name, ".html"), area: area, source: source}
	p.content = sync.OnceValues(func() (*content, error) { return read(source, s.linkFrom(name, ".html")) })
	s.pages = append(s.pages, p)
	s.byName[name] = p
	s.addHTML(p.path, "page", func() (*frame, error) { return s.pageFrame(p) })
	s.add(pathOf(name, ".md"), markdownType, func() ([]byte, error) { return s.markdown(name, source), nil })
	return nil
}

// addHTML adds a page that a template makes.
func (s *Site) addHTML(to, name string, data func() (*frame, error)) {
	s.add(to, "text/html; charset=utf-8", func() ([]byte, error) {
		f, err := data()
		if err != nil {
			return nil, err
		}
		f.Root = strings.Repeat("../", strings.Count(to, "/"))
		var b bytes.Buffer
		err = s.templates[name].ExecuteTemplate(&b, "layout", f)
		return b.Bytes(), err
	})
}

// has reports whether the site has a file that is no page.
func (s *Site) has(path string) bool { return s.files[path] != nil }

// Paths returns the paths of all files, below [Path].
func (s *Site) Paths() []string { return slices.Sorted(maps.Keys(s.files)) }

// policy allows the style, the scripts and the form of the site, and nothing else. An exported page has it in its head,
// where frame-ancestors has no effect.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'"

// svgStyle is the style in a picture.
var svgStyle = regexp.MustCompile(`(?s)<style>(.*?)</style>`)

// picturePolicy returns what a picture may load: the style that is in it, and nothing else.
func (f *file) picturePolicy() (string, error) {
	data, err := f.content()
	allowed := "default-src 'none'"
	if style := svgStyle.FindSubmatch(data); style != nil {
		sum := sha256.Sum256(style[1])
		allowed += "; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return allowed, err
}

// ServeHTTP implements [http.Handler]: it serves the files below [Path], and the description of the API and llms.txt
// at the root, too. Everybody may read them.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "The documentation can only be read: use GET.", http.StatusMethodNotAllowed)
		return
	}
	f, to := s.find(r.URL.Path)
	switch {
	case to != "":
		http.Redirect(w, r, to, http.StatusPermanentRedirect)
		return
	case f == nil:
		http.Error(w, "There is no such page. "+Path+"search.html lists all pages.", http.StatusNotFound)
		return
	}
	served, err := f.served()
	allowed, policyErr := f.policy()
	if err != nil || policyErr != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Security-Policy", allowed+"; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-cache") // another release has other pages
	isCompressed := f.mediaType == gzipType || f.mediaType == pngType
	if isCompressed {
		r.Header.Del("Accept-Encoding")
	}
	served.ServeHTTP(w, r)
}

// find returns the file at a path, or the path at which it is.
func (s *Site) find(at string) (f *file, to string) {
	switch at {
	case "/" + llmsPath:
		return s.rootLLMs, ""
	case "/" + openAPIPath:
		return s.files[openAPIPath], ""
	case strings.TrimSuffix(Path, "/"):
		return nil, Path
	}
	name, isBelow := strings.CutPrefix(at, Path)
	if !isBelow {
		return nil, ""
	}
	if name == "" || strings.HasSuffix(name, "/") {
		return s.files[name+"index.html"], ""
	}
	switch {
	case s.has(name):
		return s.files[name], ""
	case s.has(name + ".html"):
		return nil, at + ".html"
	case s.has(name + "/index.html"):
		return nil, at + "/"
	}
	return nil, ""
}

// Export writes all files into a folder, which is made when it is not there. Files of the same name are replaced.
func (s *Site) Export(dir string) error {
	for _, name := range s.Paths() {
		data, err := s.files[name].content()
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A frame is what a template shows.
type frame struct {
	Root, Policy string // the way to the folder of the site, and what a page may load
	Title, About string
	Markdown     string // the name of the page in Markdown
	Area         string // Area is the title of the area; "" for pages that are in no area.
	Headings     []heading
	Body         template.HTML
	Areas        []areaLinks
	Before, Next *link // the pages before and behind this one
	Operations   []operationGroup
	Sandbox      *sandbox
	HasVersions  bool     // HasVersions is set for pages whose parts are versions of a message.
	Checker      *checker // nil on all pages but that of the checker
}

// An areaLinks is an area with the links of its pages.
type areaLinks struct {
	Title, About, To string
	IsCurrent        bool
	Sections         []sectionLinks
}

type sectionLinks struct {
	Title string
	Links []link
}

// A link leads to a page, by its path from the folder of the site.
type link struct {
	To, Title, About string
	IsCurrent        bool
}

// link returns the link to a page.
func (p *page) link() (*link, error) {
	c, err := p.content()
	if err != nil {
		return nil, err
	}
	return &link{To: p.path, Title: c.title, About: c.about}, nil
}

// frame returns the frame of the pages that are in no area.
func (s *Site) frame() (*frame, error) { return s.newFrame(nil) }

// newFrame returns the frame of a page with its navigation. On is nil for pages that are in no area.
func (s *Site) newFrame(on *page) (*frame, error) {
	f := &frame{Policy: policy, Title: "Documentation", Markdown: "index.md"}
	for _, area := range docs.Areas() {
		links := areaLinks{Title: area.Title, About: area.About, IsCurrent: on != nil && on.area.Title == area.Title}
		for _, section := range area.Sections {
			group := sectionLinks{Title: section.Title}
			for _, name := range section.Pages {
				to, err := s.byName[name].link()
				if err != nil {
					return nil, err
				}
				to.IsCurrent = on == s.byName[name]
				group.Links = append(group.Links, *to)
			}
			links.Sections = append(links.Sections, group)
		}
		links.To = links.Sections[0].Links[0].To
		f.Areas = append(f.Areas, links)
	}
	return f, nil
}

// versionHeading is the heading of one version of a message.
var versionHeading = regexp.MustCompile(`^2\.[0-9]\.[0-9]$`)

// maxHeadings is up to how many headings the navigation shows those of a page. More would hide the other pages.
const maxHeadings = 16

// pageFrame returns the frame of a page of Markdown.
func (s *Site) pageFrame(p *page) (*frame, error) {
	c, err := p.content()
	if err != nil {
		return nil, err
	}
	f, err := s.newFrame(p)
	if err != nil {
		return nil, err
	}
	f.Title, f.About, f.Body, f.Area = c.title, c.about, c.body, p.area.Title
	f.Markdown = path.Base(pathOf(p.name, ".md"))
	f.HasVersions = slices.ContainsFunc(c.headings, func(h heading) bool { return versionHeading.MatchString(h.Text) })
	if p.name == checkerPage {
		f.Checker = &s.checker
		if f.Policy, err = s.files[p.path].policy(); err != nil {
			return nil, err
		}
	}
	if len(c.headings) <= maxHeadings {
		f.Headings = c.headings
	}
	at := slices.Index(s.pages, p)
	if at > 0 && s.pages[at-1].area == p.area {
		if f.Before, err = s.pages[at-1].link(); err != nil {
			return nil, err
		}
	}
	if at+1 < len(s.pages) && s.pages[at+1].area == p.area {
		f.Next, err = s.pages[at+1].link()
	}
	return f, err
}

// llms returns the list of all pages for programs that read, with links to their Markdown below a folder.
func (s *Site) llms(folder string) ([]byte, error) {
	f, err := s.frame()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# threeds\n\n> An open EMV 3-D Secure server: EMV 3DS 2.1.0, 2.2.0 and 2.3.1, with a sandbox of " +
		"directory servers and issuers.\n\n- [OpenAPI](" + folder + "openapi.json): the API in JSON\n")
	for _, area := range f.Areas {
		b.WriteString("\n## " + area.Title + "\n\n" + area.About + "\n\n")
		for _, section := range area.Sections {
			for _, to := range section.Links {
				b.WriteString("- [" + to.Title + "](" + folder + strings.TrimSuffix(to.To, ".html") + ".md): " + to.About + "\n")
			}
		}
	}
	return b.Bytes(), nil
}

func (s *Site) parseTemplates() error {
	layout, err := template.ParseFS(assets, "templates/layout.html")
	if err != nil {
		return err
	}
	s.templates = map[string]*template.Template{}
	names, err := fs.Glob(assets, "templates/*.html")
	for _, name := range names {
		own, err := template.Must(layout.Clone()).ParseFS(assets, name)
		if err != nil {
			return err
		}
		s.templates[strings.TrimSuffix(path.Base(name), ".html")] = own
	}
	return err
}
