package sandbox

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/sandbox/shop"
	"github.com/openthreeds/threeds/testing/browsertest"
)

var writePictures = flag.Bool("pictures", false, "write docs/images/pages")

// TestPicturesOfShopAndConsole makes the pictures of pages that the documentation shows, in both colours, out of a
// sandbox in which a shopper has paid. With -pictures it writes them: make pictures. Otherwise it says whether they can
// be made, and whether each file is one of them. No two runs give the same bytes, for ids and times differ.
func TestPicturesOfShopAndConsole(t *testing.T) {
	if !*writePictures && !browsertest.HasLongWalks() {
		t.Skip("NOT TESTED: whether pictures of shop and console can be made: WALKS=all, or make test-all")
	}
	tab := browsertest.NewBrowser(t)
	c := &camera{t: t, tab: tab, dir: filepath.Join(browsertest.Root(t), "docs/images/pages")}
	base := startSandboxWithShop(t, &shop.Shop{EventWait: time.Hour}, func(h http.Handler) http.Handler { return h })
	for _, card := range []string{"4000000000000113", "5105000000000103", "9000100111111111", "3400000000000123"} {
		payInShop(t, tab, base, card)
		until(t, tab, `location.pathname === "/order" && !!document.getElementById("ending")`)
	}

	must(t, chromedp.Do(tab, chromedp.Navigate(base)))
	until(t, tab, `!!globalThis.pay?.onclick`)
	c.photograph("shop", 900, 620)
	payInShop(t, tab, base, "4000000000000072")
	must(t, browsertest.Wait(tab, func() (bool, error) {
		return browsertest.InAnyFrame(tab, `document.readyState === "complete" && !!document.querySelector("button[value=submit]")`)
	}))
	c.photograph("challenge", 900, 780)
	pressAtBank(t, tab, "submit")
	until(t, tab, `location.pathname === "/order" && document.getElementById("learned")?.innerText.startsWith("Pushed")`)
	id, err := chromedp.Run(tab, chromedp.Evaluate[string](`new URLSearchParams(location.search).get("authentication")`))
	must(t, err)
	waitFor(t, func() bool { // the journal is written a moment later
		page := readOrder(t, base, id)
		return strings.Contains(page, "step=webhook") && strings.Contains(page, "step=cres")
	}, func() string { return readOrder(t, base, id) })
	for _, p := range []struct {
		name, at      string
		width, height int64
	}{
		{"order", "/order?step=rreq&authentication=" + id, 1280, 0},
		{"overview", "/console/", 1200, 860},
		{"record", "/console/authentications/" + id, 1200, 860},
		{"merchants", "/console/merchants", 1200, 620},
	} {
		must(t, chromedp.Do(tab, chromedp.Navigate(base+p.at)))
		until(t, tab, `document.readyState === "complete" && !!document.querySelector("h1")`)
		c.photograph(p.name, p.width, p.height)
	}
	c.compareWithFolder()
}

// payInShop chooses a card on the first page of the demo shop, and pays.
func payInShop(t *testing.T, tab context.Context, base, card string) {
	t.Helper()
	must(t, chromedp.Do(tab, chromedp.Navigate(base)))
	until(t, tab, `!!globalThis.pay?.onclick`)
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`form.card.value = %q; pay.click()`, card))))
}

// A camera takes pictures of a tab.
type camera struct {
	t     *testing.T
	tab   context.Context
	dir   string // where the pictures of the documentation are
	taken []string
}

// pictureScale is how many pixels of a picture a pixel of the page has, so that text is sharp on all screens.
const pictureScale = 1.5

// finishColours brings colours that are on their way to those of the other scheme to their end.
const finishColours = `document.getAnimations().forEach((a) => a instanceof CSSTransition && a.finish())`

// photograph keeps a picture of what the tab shows, in both colours. Without a height it goes down to the end of the lanes.
func (c *camera) photograph(name string, width, height int64) {
	c.t.Helper()
	if height == 0 {
		var err error
		must(c.t, chromedp.Do(c.tab, browsertest.View(width, 100, "light")))
		height, err = chromedp.Run(c.tab, chromedp.Evaluate[int64](
			`Math.ceil(document.querySelector("section.lanes").getBoundingClientRect().bottom + scrollY) + 16`))
		must(c.t, err)
	}
	for _, scheme := range []string{"light", "dark"} {
		must(c.t, chromedp.Do(c.tab, browsertest.View(width, height, scheme),
			chromedp.EmulateViewport(width, height, chromedp.EmulateScale(pictureScale)),
			chromedp.Evaluate[chromedp.Void](finishColours)))
		shot, err := chromedp.Run(c.tab, chromedp.CaptureScreenshot())
		must(c.t, err)
		whole, err := png.Decode(bytes.NewReader(shot))
		must(c.t, err)
		if is, want := whole.Bounds().Size(), image.Pt(int(pictureScale*float64(width)), int(pictureScale*float64(height))); is != want {
			c.t.Errorf("%s, %s, has %v pixels, want %v", name, scheme, is, want)
		}
		var small bytes.Buffer
		must(c.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, withFewColours(whole)))
		file := name + "-" + scheme + ".png"
		c.taken = append(c.taken, file)
		c.t.Logf("%s: %d bytes", file, small.Len())
		if *writePictures {
			must(c.t, os.MkdirAll(c.dir, 0o755))
			must(c.t, os.WriteFile(filepath.Join(c.dir, file), small.Bytes(), 0o644))
		}
	}
}

// compareWithFolder reports pictures that are not in the documentation, and files there that nothing makes.
func (c *camera) compareWithFolder() {
	c.t.Helper()
	entries, err := os.ReadDir(c.dir)
	must(c.t, err)
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	slices.Sort(c.taken)
	if !slices.Equal(files, c.taken) {
		c.t.Errorf("docs/images/pages has %s; the pictures are %s: make pictures writes them", strings.Join(files, " "), strings.Join(c.taken, " "))
	}
}

// maxColours is how many colours a PNG with a palette has. mostFrequent of them are the most frequent ones.
const (
	maxColours   = 256
	mostFrequent = 192
)

// withFewColours returns a picture with the colours that most of it has. The others become the nearest of them.
func withFewColours(whole image.Image) *image.Paletted {
	count := map[color.RGBA]int{}
	bounds := whole.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	// Most of the palette are the most frequent colours. Of the others that look alike it has one each.
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	var palette color.Palette
	isLike := map[[3]uint8]bool{}
	for _, c := range frequent {
		group := [3]uint8{c.R >> 5, c.G >> 5, c.B >> 5}
		if len(palette) < maxColours && (len(palette) < mostFrequent || !isLike[group]) {
			palette = append(palette, c)
			isLike[group] = len(palette) > mostFrequent
		}
	}
	few, index := image.NewPaletted(bounds, palette), map[color.RGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			i, isKnown := index[c]
			if !isKnown {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			few.SetColorIndex(x, y, i)
		}
	}
	return few
}
