package playground

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/sandbox/shop"
)

// TestB10RunAgain: a run is made again with the same card, with threeds.js and without it, and its end comes by an
// event, too. The line for curl makes the same authentication.
func TestB10RunAgain(t *testing.T) {
	h, base := newHookedShop(t, &shop.Shop{EventWait: time.Minute})
	first, page := payAtShop(t, base, "4000000000000103")
	beginAndLeave(t, page)
	h.next(t, first)

	req, err := http.NewRequest(http.MethodPost, base+"/runs/"+first+"/again", nil)
	must(t, err)
	req.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	defer answer.Body.Close()
	var next struct{ To, URL string }
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if err := json.Unmarshal(text, &next); err != nil {
		t.Fatalf("again: %s %s", answer.Status, text)
	}
	second := strings.TrimPrefix(next.To, "/order?authentication=")
	if second == first || next.URL == "" {
		t.Fatalf("again: %s, %+v", answer.Status, next)
	}
	beginAndLeave(t, next.URL)
	h.next(t, second)
	for _, id := range []string{first, second} {
		if text := readOrder(t, base, id); !strings.Contains(text, "authenticated: authorise") || !strings.Contains(text, "Pushed: the server told the shop") {
			t.Errorf("the order of %s: %s", id, text)
		}
	}

	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.PostForm(base+"/runs/"+first+"/again", url.Values{})
	must(t, err)
	must(t, res.Body.Close())
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, base+"/a/") {
		t.Errorf("without a script: %s to %s", res.Status, to)
	}
	req, err = http.NewRequest(http.MethodPost, base+"/runs/"+first+"/again", nil)
	must(t, err)
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err = http.DefaultClient.Do(req)
	must(t, err)
	must(t, res.Body.Close())
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("from another site: %s", res.Status)
	}

	line := getText(t, base+"/runs/"+first+"/curl")
	out, err := exec.Command("sh", "-c", line).Output()
	var made client.Authentication
	if err != nil || json.Unmarshal(out, &made) != nil || made.ID == "" || made.ID == first || made.Card.Last4 != "0103" {
		t.Errorf("%s: %v, %s", line, err, out)
	}
	if list := getText(t, base+"/runs"); strings.Count(list, "Card ending in 0103</a>") != 3 || !slices.Contains(strings.Fields(list), "class=\"pill") {
		t.Errorf("the list of runs: %s", list)
	}
	if res, err := http.Get(base + "/runs/none/curl"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("the line of no run: %v, %v", res.Status, err)
	}
}
