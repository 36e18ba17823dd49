package shop

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openthreeds/threeds/client"
)

// printedAddress is the address of the server in the lines that docs/browser.md prints.
const printedAddress = "http://127.0.0.1:8080"

// orderWait is how long the page of an order waits for the end.
const orderWait = 30 * time.Second

// serverAddress is where browsers load threeds.js from: the public address, which in the sandbox is the server's too.
func (s *Shop) serverAddress() string {
	return strings.TrimSuffix(cmp.Or(s.PublicURL, s.API), "/")
}

// allowServer lets a page load threeds.js.
func (s *Shop) allowServer(w http.ResponseWriter) {
	allowed := policy
	if u, err := url.Parse(s.serverAddress()); err == nil && u.Host != "" {
		origin := u.Scheme + "://" + u.Host
		allowed = strings.NewReplacer("script-src 'self'", "script-src 'self' "+origin,
			"connect-src 'self'", "connect-src 'self' "+origin).Replace(policy)
	}
	w.Header().Set("Content-Security-Policy", allowed)
}

// payPage is the checkout of a shop that leaves all to POST /authentications and threeds.js.
func (s *Shop) payPage(w http.ResponseWriter, _ *http.Request) {
	s.allowServer(w)
	s.page(w, http.StatusOK, "pay.html", map[string]any{"Product": productName, "Price": productPrice, "Cards": testCards})
}

// payScript is the script that docs/browser.md prints, with the address of this server.
func (s *Shop) payScript(w http.ResponseWriter, _ *http.Request) {
	text, err := assets.ReadFile("assets/pay.js")
	if err != nil {
		http.Error(w, "The script could not be read.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", types[".js"])
	_, _ = w.Write(bytes.ReplaceAll(text, []byte(printedAddress), []byte(s.serverAddress()))) // the browser may be gone
}

// pay begins an authentication, and tells the page what threeds.js needs. There is no url if it is over already.
func (s *Shop) pay(w http.ResponseWriter, r *http.Request) {
	var payment struct{ Card, Expiry string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(&payment); err != nil {
		writeJSON(w, http.StatusBadRequest, faults{"": "The payment could not be read."})
		return
	}
	a, err := s.api.Authenticate(r.Context(), map[string]string{
		"acctNumber": strings.ReplaceAll(payment.Card, " ", ""), "cardExpiryDate": payment.Expiry,
		"purchaseAmount": productAmount, "purchaseCurrency": productCurrency,
	}, "")
	if err != nil {
		s.Log.Warn("shop: POST /authentications", "err", err)
		writeJSON(w, http.StatusBadGateway, faults{"": "The payment could not be made."})
		return
	}
	answer := map[string]string{"id": a.ID}
	if a.Browser != nil {
		answer["url"] = a.Browser.URL
	}
	writeJSON(w, http.StatusOK, answer)
}

// orderPage asks the server how an authentication ended, and shows that.
func (s *Shop) orderPage(w http.ResponseWriter, r *http.Request) {
	a, err := s.api.Authentication(r.Context(), r.FormValue("authentication"), orderWait)
	if err != nil {
		s.Log.Warn("shop: GET /authentications", "err", err)
		s.page(w, http.StatusBadGateway, "order.html", map[string]any{"Ending": "", "Card": client.CardSummary{}})
		return
	}
	end := a.Status + ": wait"
	if a.Outcome != nil {
		end = a.Outcome.Result + ": " + a.Outcome.Next.Action
	}
	s.allowServer(w)
	s.page(w, http.StatusOK, "order.html", map[string]any{
		"Ending": end, "Outcome": a.Outcome, "Card": a.Card, "ID": a.ID, "Run": s.runs.View(r.Context(), a.ID, r.URL.Query()),
	})
}
