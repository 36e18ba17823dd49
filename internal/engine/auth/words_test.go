package auth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

// wordEngine returns an engine with one directory for each word, all of which hold the card.
func wordEngine(w *authtest.World, words ...string) *session.Engine {
	e := w.NewEngine(0)
	e.Peers, w.Hits = nil, nil
	for _, word := range words {
		e.Peers = append(e.Peers, check.Directory{
			Scheme: word, Versions: message.Versions(), ResultsURL: "https://results.example/",
		})
		w.Hits = append(w.Hits, ranges.Hit{Scheme: word, Info: authtest.AllVersions("")})
	}
	return e
}

// idOf returns a fresh id for a scheme of the card.
func idOf(t *testing.T, e *session.Engine, ds string) string {
	t.Helper()
	crd, _, err := e.Preauth(t.Context(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN, "ds": ds}.JSON())
	if err != nil {
		t.Fatalf("/preauth with ds %s: %v", ds, err)
	}
	if got := authtest.Parse(t, crd).Text("scheme"); got != ds {
		t.Fatalf("/preauth with ds %s says %s", ds, got)
	}
	return authtest.Parse(t, crd).Text("threeDSServerTransID")
}

// withoutCardholder is a request that may come without the id of /preauth.
func withoutCardholder() authtest.Object {
	req := authtest.With(authtest.AReq("2.2.0", ""), "deviceChannel", "03")
	req["threeRIInd"] = "03"
	delete(req, "threeDSServerTransID")
	return req
}

// TestA2DSChoosesTheDirectory: the AReq of a co-badged card goes to the directory that ds names, under any word;
// without ds it goes to the first. /preauth names all of them.
func TestA2DSChoosesTheDirectory(t *testing.T) {
	w := authtest.NewWorld()
	e := wordEngine(w, "visa", "cb", "my-own-scheme")
	var went string
	w.Reply = func(scheme string, areq authtest.Object) ([]byte, error) {
		went = scheme
		return authtest.ARes(areq, "Y"), nil
	}
	crd, notes, err := e.Preauth(t.Context(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN}.JSON())
	all := []string{"visa", "cb", "my-own-scheme"}
	if err != nil || authtest.Parse(t, crd).Text("scheme") != "visa" || !slices.Equal(notes.Schemes, all) {
		t.Errorf("/preauth: %s, schemes %v, %v", crd, notes.Schemes, err)
	}
	send := func(req authtest.Object) string {
		went = ""
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
			return authtest.Told(err)
		}
		return went
	}
	for _, word := range all {
		if got := send(authtest.AReq("2.2.0", idOf(t, e, word))); got != word {
			t.Errorf("/auth with an id of %s: %s", word, got)
		}
		if got := send(authtest.With(authtest.AReq("2.2.0", idOf(t, e, word)), "ds", word)); got != word {
			t.Errorf("/auth with an id of %s and ds of it: %s", word, got)
		}
		if got := send(authtest.With(withoutCardholder(), "ds", word)); got != word {
			t.Errorf("/auth without an id, ds %s: %s", word, got)
		}
	}
	if got := send(withoutCardholder()); got != "visa" {
		t.Errorf("/auth without an id and ds: %s, want visa", got)
	}
	if got := send(authtest.With(authtest.AReq("2.2.0", idOf(t, e, "cb")), "ds", "visa")); got != "305 ds" {
		t.Errorf("/auth with an id of cb and ds visa: %s, want 305 ds", got)
	}
	w.Hits = w.Hits[:1]
	if got := send(authtest.With(withoutCardholder(), "ds", "cb")); got != "305 acctNumber" {
		t.Errorf("/auth, ds cb for a card of visa alone: %s, want 305 acctNumber", got)
	}
	if _, notes, _ := e.Preauth(t.Context(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN}.JSON()); notes.Schemes != nil {
		t.Errorf("a card of one scheme has schemes %v", notes.Schemes)
	}
}

// TestD45UnknownWordIs203: a word that no directory has is 203 in /preauth and /auth, whatever it looks like. The
// words that the API always had stay 305 where they are not configured.
func TestD45UnknownWordIs203(t *testing.T) {
	w := authtest.NewWorld()
	e := wordEngine(w, "visa", "cb")
	for _, tt := range []struct {
		ds   any
		want string // of /preauth; "" means an answer
	}{
		{"visa", ""}, {"cb", ""}, {"", ""}, {nil, ""},
		{"mastercard", "305"}, {"amex", "305"}, {"jcb", "305"}, {"upi", "305"},
		{"protectbuy", "305"}, {"sbn", "305"}, {"standin", "305"},
		{"elo", "203"}, {"bancontact", "203"}, {"CB", "203"}, {"c b", "203"}, {"carte_bancaire", "203"}, {"every", "203"},
		{strings.Repeat("cb", 500), "203"}, {5, "203"}, {true, "203"}, {[]string{"cb", "visa"}, "203"},
		{authtest.Object{"word": "cb"}, "203"},
	} {
		_, _, err := e.Preauth(t.Context(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN, "ds": tt.ds}.JSON())
		if got := authtest.CodeOf(err); got != tt.want || got == "203" && authtest.Told(err) != "203 ds" {
			t.Errorf("/preauth, ds %v: %v, want %q", tt.ds, err, tt.want)
		}
		_, _, err = e.Authenticate(t.Context(), authtest.Shop, authtest.With(withoutCardholder(), "ds", tt.ds).JSON())
		if got := authtest.CodeOf(err); got != tt.want || got == "203" && authtest.Told(err) != "203 ds" {
			t.Errorf("/auth, ds %v: %v, want %q", tt.ds, err, tt.want)
		}
	}
	if n := len(w.Sends); n != 4 {
		t.Errorf("%d AReqs left, want the 4 of good words", n)
	}
}

// TestA2IDOfOneSchemeIsNoneOfAnother: whatever directories are configured after /preauth, an AReq goes to the
// scheme that its id was made for, or nowhere.
func TestA2IDOfOneSchemeIsNoneOfAnother(t *testing.T) {
	words := []string{"standin", "visa", "sbn", "cb", "eftpos", "elo", "bancontact", "my-own-scheme", "x1", "x2"}
	w := authtest.NewWorld()
	ids := make(map[string]string)
	for _, word := range words {
		ids[word] = idOf(t, wordEngine(w, words...), word)
	}
	for _, made := range words {
		others := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == made })
		_, _, err := wordEngine(w, others...).Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", ids[made]).JSON())
		if authtest.Told(err) != "305 acctNumber" {
			t.Errorf("an id of %s, where all others are configured: %v, want 305 acctNumber", made, err)
		}
	}
	if len(w.Sends) > 0 {
		t.Errorf("%d AReqs went to another scheme", len(w.Sends))
	}
	var went string
	w.Reply = func(scheme string, areq authtest.Object) ([]byte, error) {
		went = scheme
		return authtest.ARes(areq, "Y"), nil
	}
	slices.Reverse(words) // a restart with another configuration, or another node
	for _, made := range words {
		e := wordEngine(w, append([]string{"mada"}, words...)...)
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", ids[made]).JSON()); err != nil || went != made {
			t.Errorf("an id of %s after a change of the order went to %s, %v", made, went, err)
		}
	}
}

// TestA2ResultOfAnotherDirectoryIsRefused: the result of a transaction with one directory counts only from that
// directory, even if the operator chose the words of both.
func TestA2ResultOfAnotherDirectoryIsRefused(t *testing.T) {
	w := authtest.NewWorld()
	e := wordEngine(w, "visa", "cb", "my-own-scheme")
	var sent authtest.Object
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		sent = areq
		return authtest.ARes(areq, "C"), nil
	}
	for n, word := range []string{"visa", "cb", "my-own-scheme"} {
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", idOf(t, e, word)).JSON()); err != nil {
			t.Fatal(err)
		}
		result := authtest.RReq(sent, "Y", n).JSON()
		for _, from := range [][]string{nil, {""}, {"visa"}, {"cb"}, {"my-own-scheme"}, {"my-own"}, {"cb "}} {
			if slices.Contains(from, word) {
				continue
			}
			if got := authtest.Parse(t, e.Receive(t.Context(), from, result).Body); got.Text("messageType") != "Erro" {
				t.Errorf("the result of %s from %q: %v", word, from, got)
			}
			body := authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON()
			if _, err := e.Result(t.Context(), authtest.Shop, body); authtest.CodeOf(err) == "" {
				t.Errorf("/postauth has a result of %s that came from %q", word, from)
			}
		}
		if got := authtest.Parse(t, e.Receive(t.Context(), []string{word}, result).Body); got.Text("messageType") != "RRes" {
			t.Errorf("the result of %s from itself: %v", word, got)
		}
	}
}

// TestA2OwnerComesFirst: a foreign id of any scheme, also of one that is not configured, is answered as an unknown id.
func TestA2OwnerComesFirst(t *testing.T) {
	w := authtest.NewWorld()
	words := []string{"visa", "cb", "my-own-scheme"}
	for _, word := range words {
		id := idOf(t, wordEngine(w, words...), word)
		var answers []string
		for _, configured := range [][]string{words, {"visa"}, {"cb"}, {"elo"}} {
			e := wordEngine(w, configured...)
			_, _, foreign := e.Authenticate(t.Context(), authtest.Other, authtest.AReq("2.2.0", id).JSON())
			_, _, unknown := e.Authenticate(t.Context(), authtest.Other, authtest.AReq("2.2.0", "6f2d1f8a-1c5b-4a55-9d0e-0123456789ab").JSON())
			answers = append(answers, fmt.Sprint(authtest.Told(foreign) == authtest.Told(unknown), " ", authtest.Told(foreign)))
		}
		for _, answer := range answers {
			if answer != "true 301 The threeDSServerTransID is not known" {
				t.Errorf("a foreign id of %s: %q", word, answers)
			}
		}
	}
}
