package auth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

// wordEngine returns an engine with one directory for each word, all of which hold the card.
func (w *world) wordEngine(words ...string) *auth.Engine {
	e := w.engine(0)
	e.Peers, w.hits = nil, nil
	for _, word := range words {
		e.Peers = append(e.Peers, check.Directory{
			Scheme: word, Versions: message.Versions(), ResultsURL: "https://results.example/",
		})
		w.hits = append(w.hits, ranges.Hit{Scheme: word, Info: allVersions("")})
	}
	return e
}

// idOf returns a fresh id for a scheme of the card.
func idOf(t *testing.T, e *auth.Engine, ds string) string {
	t.Helper()
	crd, _, err := e.Preauth(t.Context(), shop, object{"acctNumber": pan, "ds": ds}.json())
	if err != nil {
		t.Fatalf("/preauth with ds %s: %v", ds, err)
	}
	if got := parse(t, crd).text("scheme"); got != ds {
		t.Fatalf("/preauth with ds %s says %s", ds, got)
	}
	return parse(t, crd).text("threeDSServerTransID")
}

// withoutCardholder is a request that may come without the id of /preauth.
func withoutCardholder() object {
	req := with(areq("2.2.0", ""), "deviceChannel", "03")
	req["threeRIInd"] = "03"
	delete(req, "threeDSServerTransID")
	return req
}

// TestA2DSChoosesTheDirectory: a co-badged card goes to the directory that ds names, under any word; without ds to
// the first. /preauth names all of them.
func TestA2DSChoosesTheDirectory(t *testing.T) {
	w := newWorld()
	e := w.wordEngine("visa", "cb", "my-own-scheme")
	var went string
	w.reply = func(scheme string, areq object) ([]byte, error) {
		went = scheme
		return ares(areq, "Y"), nil
	}
	crd, notes, err := e.Preauth(t.Context(), shop, object{"acctNumber": pan}.json())
	all := []string{"visa", "cb", "my-own-scheme"}
	if err != nil || parse(t, crd).text("scheme") != "visa" || !slices.Equal(notes.Schemes, all) {
		t.Errorf("/preauth: %s, schemes %v, %v", crd, notes.Schemes, err)
	}
	send := func(req object) string {
		went = ""
		if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
			return told(err)
		}
		return went
	}
	for _, word := range all {
		if got := send(areq("2.2.0", idOf(t, e, word))); got != word {
			t.Errorf("/auth with an id of %s: %s", word, got)
		}
		if got := send(with(areq("2.2.0", idOf(t, e, word)), "ds", word)); got != word {
			t.Errorf("/auth with an id of %s and ds of it: %s", word, got)
		}
		if got := send(with(withoutCardholder(), "ds", word)); got != word {
			t.Errorf("/auth without an id, ds %s: %s", word, got)
		}
	}
	if got := send(withoutCardholder()); got != "visa" {
		t.Errorf("/auth without an id and ds: %s, want visa", got)
	}
	if got := send(with(areq("2.2.0", idOf(t, e, "cb")), "ds", "visa")); got != "305 ds" {
		t.Errorf("/auth with an id of cb and ds visa: %s, want 305 ds", got)
	}
	w.hits = w.hits[:1]
	if got := send(with(withoutCardholder(), "ds", "cb")); got != "305 acctNumber" {
		t.Errorf("/auth, ds cb for a card of visa alone: %s, want 305 acctNumber", got)
	}
	if _, notes, _ := e.Preauth(t.Context(), shop, object{"acctNumber": pan}.json()); notes.Schemes != nil {
		t.Errorf("a card of one scheme has schemes %v", notes.Schemes)
	}
}

// TestD45UnknownWordIs203: a word that no directory has is 203 in /preauth and /auth, whatever it looks like. The
// words that the API always had stay 305 where they are not configured.
func TestD45UnknownWordIs203(t *testing.T) {
	w := newWorld()
	e := w.wordEngine("visa", "cb")
	for _, tt := range []struct {
		ds   any
		want string // of /preauth; "" means an answer
	}{
		{"visa", ""}, {"cb", ""}, {"", ""}, {nil, ""},
		{"mastercard", "305"}, {"amex", "305"}, {"jcb", "305"}, {"upi", "305"},
		{"protectbuy", "305"}, {"sbn", "305"}, {"standin", "305"},
		{"elo", "203"}, {"bancontact", "203"}, {"CB", "203"}, {"c b", "203"}, {"carte_bancaire", "203"}, {"every", "203"},
		{strings.Repeat("cb", 500), "203"}, {5, "203"}, {true, "203"}, {[]string{"cb", "visa"}, "203"},
		{object{"word": "cb"}, "203"},
	} {
		_, _, err := e.Preauth(t.Context(), shop, object{"acctNumber": pan, "ds": tt.ds}.json())
		if got := codeOf(err); got != tt.want || got == "203" && told(err) != "203 ds" {
			t.Errorf("/preauth, ds %v: %v, want %q", tt.ds, err, tt.want)
		}
		_, _, err = e.Authenticate(t.Context(), shop, with(withoutCardholder(), "ds", tt.ds).json())
		if got := codeOf(err); got != tt.want || got == "203" && told(err) != "203 ds" {
			t.Errorf("/auth, ds %v: %v, want %q", tt.ds, err, tt.want)
		}
	}
	if n := len(w.sends); n != 4 {
		t.Errorf("%d AReqs left, want the 4 of good words", n)
	}
}

// TestA2IDOfOneSchemeIsNoneOfAnother: whatever directories are configured after /preauth, an AReq goes to the
// scheme that its id was made for, or nowhere.
func TestA2IDOfOneSchemeIsNoneOfAnother(t *testing.T) {
	words := []string{"standin", "visa", "sbn", "cb", "eftpos", "elo", "bancontact", "my-own-scheme", "x1", "x2"}
	w := newWorld()
	ids := make(map[string]string)
	for _, word := range words {
		ids[word] = idOf(t, w.wordEngine(words...), word)
	}
	for _, made := range words {
		others := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == made })
		_, _, err := w.wordEngine(others...).Authenticate(t.Context(), shop, areq("2.2.0", ids[made]).json())
		if told(err) != "305 acctNumber" {
			t.Errorf("an id of %s, where all others are configured: %v, want 305 acctNumber", made, err)
		}
	}
	if len(w.sends) > 0 {
		t.Errorf("%d AReqs went to another scheme", len(w.sends))
	}
	var went string
	w.reply = func(scheme string, areq object) ([]byte, error) {
		went = scheme
		return ares(areq, "Y"), nil
	}
	slices.Reverse(words) // a restart with another configuration, or another node
	for _, made := range words {
		e := w.wordEngine(append([]string{"mada"}, words...)...)
		if _, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", ids[made]).json()); err != nil || went != made {
			t.Errorf("an id of %s after a change of the order went to %s, %v", made, went, err)
		}
	}
}

// TestA2ResultOfAnotherDirectoryIsRefused: the result of a transaction with one directory counts only from that
// directory, also when both have words of the operator's own.
func TestA2ResultOfAnotherDirectoryIsRefused(t *testing.T) {
	w := newWorld()
	e := w.wordEngine("visa", "cb", "my-own-scheme")
	var sent object
	w.reply = func(_ string, areq object) ([]byte, error) {
		sent = areq
		return ares(areq, "C"), nil
	}
	for n, word := range []string{"visa", "cb", "my-own-scheme"} {
		if _, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", idOf(t, e, word)).json()); err != nil {
			t.Fatal(err)
		}
		result := rreq(sent, "Y", n).json()
		for _, from := range [][]string{nil, {""}, {"visa"}, {"cb"}, {"my-own-scheme"}, {"my-own"}, {"cb "}} {
			if slices.Contains(from, word) {
				continue
			}
			if got := parse(t, e.Receive(t.Context(), from, result).Body); got.text("messageType") != "Erro" {
				t.Errorf("the result of %s from %q: %v", word, from, got)
			}
			body := object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json()
			if _, err := e.Result(t.Context(), shop, body); codeOf(err) == "" {
				t.Errorf("/postauth has a result of %s that came from %q", word, from)
			}
		}
		if got := parse(t, e.Receive(t.Context(), []string{word}, result).Body); got.text("messageType") != "RRes" {
			t.Errorf("the result of %s from itself: %v", word, got)
		}
	}
}

// TestA2OwnerComesFirst: a foreign id of any scheme, also of one that is not configured, is answered as an unknown id.
func TestA2OwnerComesFirst(t *testing.T) {
	w := newWorld()
	words := []string{"visa", "cb", "my-own-scheme"}
	for _, word := range words {
		id := idOf(t, w.wordEngine(words...), word)
		var answers []string
		for _, configured := range [][]string{words, {"visa"}, {"cb"}, {"elo"}} {
			e := w.wordEngine(configured...)
			_, _, foreign := e.Authenticate(t.Context(), other, areq("2.2.0", id).json())
			_, _, unknown := e.Authenticate(t.Context(), other, areq("2.2.0", "6f2d1f8a-1c5b-4a55-9d0e-0123456789ab").json())
			answers = append(answers, fmt.Sprint(told(foreign) == told(unknown), " ", told(foreign)))
		}
		for _, answer := range answers {
			if answer != "true 301 The threeDSServerTransID is not known" {
				t.Errorf("a foreign id of %s: %q", word, answers)
			}
		}
	}
}
