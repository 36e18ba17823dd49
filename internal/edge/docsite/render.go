package docsite

import (
	"bytes"
	"fmt"
	"html/template"
	"image/png"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/openthreeds/threeds/docs"
)

// A content is a page of Markdown after it was read.
type content struct {
	title, about string // the heading, and the first sentence
	headings     []heading
	body         template.HTML // without the heading of the page
	entries      []entry
}

// A heading is one of the second level.
type heading struct{ ID, Text string }

// read reads a page of Markdown. target turns the destination of a link into that of the site.
func read(source []byte, target func(string) string) (*content, error) {
	md := goldmark.New(
		goldmark.WithExtensions(extension.Linkify, extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(siteRenderer{}, 100))),
	)
	ids := anchors{}
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	c := &content{}
	c.prepare(doc, source, target, ids)
	var body bytes.Buffer
	err := md.Renderer().Render(&body, source, doc)
	c.body = template.HTML(body.String()) // pages are ours, and HTML in them is left out
	return c, err
}

// prepare makes the tree of a page into that of the site, and collects what the search finds in it.
func (c *content) prepare(doc ast.Node, source []byte, target func(string) string, ids anchors) {
	x := &indexer{source: source, ids: ids}
	for node := doc.FirstChild(); node != nil; {
		next := node.NextSibling()
		switch n := node.(type) {
		case *ast.HTMLBlock: // a comment for those who write the page
			doc.RemoveChild(doc, n)
		case *ast.Heading:
			id, _ := n.AttributeString("id")
			words, anchor := plain(n, source), string(id.([]byte))
			switch n.Level {
			case 1:
				c.title = words
				doc.RemoveChild(doc, n)
				anchor = ""
			case 2:
				c.headings = append(c.headings, heading{anchor, words})
			}
			x.startPart(anchor, words)
		case *ast.Paragraph:
			words := plain(n, source)
			if c.about == "" {
				c.about = firstSentence(words)
			}
			x.add(words)
		case *tables.Table:
			x.addTable(n)
		default:
			x.add(plain(n, source))
		}
		node = next
	}
	c.entries = x.entries
	_ = ast.Walk(doc, func(n ast.Node, isEntering bool) (ast.WalkStatus, error) {
		if !isEntering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(target(string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(target(string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
}

// plain returns the text of a node without its marks.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, isEntering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if isEntering {
				words := n.Segment.Value(source)
				if n.Parent().Kind() != ast.KindCodeSpan {
					words = util.UnescapePunctuations(words)
				}
				b.Write(words)
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.AutoLink:
			if isEntering {
				b.Write(n.Label(source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if isEntering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !isEntering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

var sentenceEnd = regexp.MustCompile(`[.?!:]( |$)`)

// firstSentence returns the first sentence of a text.
func firstSentence(words string) string {
	if at := sentenceEnd.FindStringIndex(words); at != nil {
		return strings.TrimSuffix(words[:at[0]+1], ":")
	}
	return words
}

// anchors gives each heading and row of one page an anchor of its own. Those of headings are the ones that GitHub
// makes, so that a link leads to the same place there and here.
type anchors map[string]int

// notInAnchor is what an anchor has no place for.
var notInAnchor = regexp.MustCompile(`[^\pL\pN _-]`)

// Generate implements [parser.IDs].
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(value))), "")
	return []byte(a.unique(strings.ReplaceAll(id, " ", "-")))
}

// Put implements [parser.IDs].
func (a anchors) Put(value []byte) { a[string(value)]++ }

// unique returns an anchor, with a number if the page has it already.
func (a anchors) unique(id string) string {
	n := a[id]
	a[id]++
	if n > 0 {
		return a.unique(id + "-" + strconv.Itoa(n))
	}
	return id
}

// siteRenderer writes what goldmark would write otherwise: a block of code that the keyboard can scroll, the first cell
// of a row as its head, and a picture of a page in the colours of the reader.
type siteRenderer struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (siteRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(ast.KindCodeBlock, renderCode)
	r.Register(tables.KindTableCell, renderCell)
	r.Register(ast.KindImage, renderImage)
}

// pagePictures is where pictures of pages are, each of them in two colours: NAME-light.png and NAME-dark.png. Pages of
// Markdown name the light one.
const pagePictures = "images/pages/"

// renderImage writes an image. In dark mode a picture of a page is the dark one, but not on paper. Its size is written,
// so that nothing moves when it has been loaded.
func renderImage(w util.BufWriter, source []byte, node ast.Node, isEntering bool) (ast.WalkStatus, error) {
	if !isEntering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.Image)
	to, alt := template.HTMLEscapeString(string(n.Destination)), template.HTMLEscapeString(plain(n, source))
	name, isLight := strings.CutSuffix(to, "-light.png")
	at := strings.Index(name, pagePictures)
	if !isLight || at < 0 {
		_, err := fmt.Fprintf(w, `<img src="%s" alt="%s">`, to, alt)
		return ast.WalkSkipChildren, err
	}
	file, err := docs.Files.Open(to[at:])
	if err != nil {
		return ast.WalkStop, err
	}
	defer file.Close()
	is, err := png.DecodeConfig(file)
	if err != nil {
		return ast.WalkStop, fmt.Errorf("%s: %w", to, err)
	}
	_, err = fmt.Fprintf(w, `<picture><source media="screen and (prefers-color-scheme: dark)" srcset="%s-dark.png">`+
		`<img src="%s" alt="%s" width="%d" height="%d" loading="lazy"></picture>`, name, to, alt, is.Width, is.Height)
	return ast.WalkSkipChildren, err
}

func renderCode(w util.BufWriter, source []byte, node ast.Node, isEntering bool) (ast.WalkStatus, error) {
	if !isEntering {
		_, err := w.WriteString("</code></pre>\n")
		return ast.WalkContinue, err
	}
	_, _ = w.WriteString(`<pre tabindex="0"><code>`) // the writer keeps its error
	_, err := w.WriteString(template.HTMLEscapeString(string(node.Lines().Value(source))))
	return ast.WalkContinue, err
}

func renderCell(w util.BufWriter, _ []byte, node ast.Node, isEntering bool) (ast.WalkStatus, error) {
	n := node.(*tables.TableCell)
	tag, scope := "td", ""
	switch {
	case n.Parent().Kind() == tables.KindTableHeader && n.HasChildren():
		tag, scope = "th", ` scope="col"`
	case n.PreviousSibling() == nil && n.HasChildren():
		tag, scope = "th", ` scope="row"`
	}
	if !isEntering {
		_, err := w.WriteString("</" + tag + ">\n")
		return ast.WalkContinue, err
	}
	_, _ = w.WriteString("<" + tag + scope) // the writer keeps its error
	html.RenderAttributes(w, n, html.GlobalAttributeFilter)
	return ast.WalkContinue, w.WriteByte('>')
}

// repository is where files are that the site does not have.
const repository = "https://github.com/openthreeds/threeds/blob/main/"

// linkFrom returns the function that turns a link on a page into one of the site. Pages end in ext, and a link to a
// file that is not below docs/ leads to the repository.
func (s *Site) linkFrom(page, ext string) func(string) string {
	return func(to string) string {
		name, fragment, _ := strings.Cut(to, "#")
		if name == "" || strings.Contains(name, ":") || strings.HasPrefix(name, "/") {
			return to
		}
		if fragment != "" {
			fragment = "#" + fragment
		}
		full := path.Join(path.Dir(page), name)
		switch {
		case full == "openapi.yaml" && ext == ".html":
			return strings.TrimSuffix(name, "openapi.yaml") + operationsPath + fragment
		case s.byName[full] != nil:
			return pathOf(name, ext) + fragment
		case s.has(full):
			return to
		case s.byName[full+"/README.md"] != nil:
			return strings.TrimSuffix(name, "/") + "/index" + ext + fragment
		}
		return repository + path.Join("docs", full) + fragment
	}
}

// pathOf returns the path of a page of Markdown with another ending. The README of a folder is its index.
func pathOf(name, ext string) string {
	dir, base := path.Split(name)
	if base == "README.md" {
		base = "index.md"
	}
	return dir + strings.TrimSuffix(base, ".md") + ext
}

// markdownLink is the destination of a link in the text of a page.
var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// markdown returns the text of a page with links that lead to other pages of Markdown, or to the repository.
func (s *Site) markdown(page string, source []byte) []byte {
	target := s.linkFrom(page, ".md")
	return markdownLink.ReplaceAllFunc(source, func(link []byte) []byte {
		to := string(markdownLink.FindSubmatch(link)[1])
		name, _, _ := strings.Cut(to, "#")
		if path.Ext(name) != ".md" && !strings.HasSuffix(name, "/") && !strings.HasPrefix(name, "../") {
			return link // a file beside the page, or code that looks like a link
		}
		return []byte("](" + target(to) + ")")
	})
}
