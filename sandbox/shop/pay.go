package shop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
)

// printedAddress is the address of the server in the lines that docs/browser.md prints.
const printedAddress = "http://127.0.0.1:8080"

// payScript is the name of the file with those lines.
const payScript = "pay.js"

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

// home is the checkout of a shop that leaves all to POST /authentications and threeds.js. The address may name one of
// the examples by its last four digits; it never has a card number.
func (s *Shop) home(w http.ResponseWriter, r *http.Request) {
	s.allowServer(w)
	chosen := firstCard
	for _, c := range shortCards {
		if c.Last4() == r.FormValue("ends") {
			chosen = c.Number
		}
	}
	s.page(w, http.StatusOK, "pay.html", map[string]any{
		"Product": productName, "Price": productPrice, "Amount": productAmount, "Currency": productCurrency,
		"Merchant": merchantName, "Cards": shortCards, "Chosen": chosen, "Digits": strings.ReplaceAll(chosen, " ", ""),
		"Script": string(s.payLines()), "Server": s.serverAddress(),
		"Docs": s.Docs,
	})
}

// payLines returns the script that docs/browser.md prints, with the address of this server.
func (s *Shop) payLines() []byte {
	text, _ := assets.ReadFile("assets/" + payScript) // it is in the binary
	return bytes.ReplaceAll(text, []byte(printedAddress), []byte(s.serverAddress()))
}

// beginPayment makes a request of the short way under a reference of its own. The error is errFull if there are too
// many payments that have not ended.
func (s *Shop) beginPayment(ctx context.Context, request map[string]any) (*client.Authentication, error) {
	s.registerHook(ctx)
	p, err := s.payments.open()
	if err != nil {
		return nil, err
	}
	request["reference"] = p.reference
	a, err := s.api.Authenticate(ctx, request, "")
	if err != nil {
		s.payments.setID(p, "")
		return nil, err
	}
	s.payments.setID(p, a.ID)
	return a, nil
}

// pay begins an authentication, and tells the page what threeds.js needs. There is no url if it is over already.
func (s *Shop) pay(w http.ResponseWriter, r *http.Request) {
	var form struct{ Card, Expiry string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(&form); err != nil {
		http.Error(w, "The payment could not be read.", http.StatusBadRequest)
		return
	}
	a, err := s.beginPayment(r.Context(), map[string]any{
		"acctNumber": form.Card, "cardExpiryDate": form.Expiry,
		"purchaseAmount": productAmount, "purchaseCurrency": productCurrency, "merchantName": merchantName,
	})
	problem, isProblem := errors.AsType[*client.Problem](err)
	switch {
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "60")
		http.Error(w, "The shop is full at the moment. Please try again in a minute.", http.StatusServiceUnavailable)
		return
	case isProblem && len(problem.Faults) > 0:
		http.Error(w, describeFaults(problem), http.StatusUnprocessableEntity)
		return
	case err != nil:
		s.Log.Warn("shop: POST /authentications", "err", err)
		http.Error(w, "The payment could not be made.", http.StatusBadGateway)
		return
	}
	answer := map[string]string{"id": a.ID}
	if a.Browser != nil {
		answer["url"] = a.Browser.URL
	}
	writeJSON(w, http.StatusOK, answer)
}

// fieldNames are what the page calls the elements that its shopper fills in.
var fieldNames = map[string]string{"/acctNumber": "Card number", "/cardExpiryDate": "Expiry"}

// describeFaults says what is wrong with a payment, and what would be right.
func describeFaults(p *client.Problem) string {
	var texts []string
	for _, f := range p.Faults {
		texts = append(texts, cmp.Or(fieldNames[f.Where()], f.Where())+": "+f.Cure)
	}
	return strings.Join(texts, " ")
}

// orderPage shows how an authentication ended, and how the shop came to know.
func (s *Shop) orderPage(w http.ResponseWriter, r *http.Request) {
	a, event, err := s.awaitEnd(r.Context(), r.FormValue("authentication"))
	if err != nil {
		s.Log.Warn("shop: GET /authentications", "err", err)
		s.page(w, http.StatusBadGateway, "order.html",
			map[string]any{"Heading": "The end of this payment could not be read", "Good": "open"})
		return
	}
	end, info := string(a.Status)+": wait", ""
	heading, isGood := "Your bank has not answered yet", "open"
	if a.Outcome != nil {
		end, info = string(a.Outcome.Result)+": "+string(a.Outcome.Next.Action), visible(string(a.Outcome.CardholderInfo))
		e := endings[cmp.Or(wordsOfResults[a.Outcome.Result], faulty)]
		heading, isGood = e.Title, strconv.FormatBool(e.Good)
	}
	s.allowServer(w)
	s.page(w, http.StatusOK, "order.html", map[string]any{
		"Heading": heading, "Good": isGood, "Ending": end, "Outcome": a.Outcome, "Info": info, "Card": a.Card, "ID": a.ID,
		"Event": event,
		"Run":   s.runs.View(r.Context(), a.ID, r.URL.Query()),
	})
}

// ask asks the server how a payment stands, and waits for its end.
func (s *Shop) ask(ctx context.Context, id string) (*api.AuthenticationSummary, error) {
	a, err := s.api.Authentication(ctx, id, orderWait)
	if err != nil {
		return nil, err
	}
	return &a.AuthenticationSummary, nil
}

// An eventView is what the page of an order says about the event that the shop received.
type eventView struct {
	IsPushed bool // the event was there before the shop asked
	ID, At   string
}

// awaitEnd waits for the event that ends a payment, and asks the server if none comes in time. The authentication is
// not final if there is no end so far.
func (s *Shop) awaitEnd(ctx context.Context, id string) (*api.AuthenticationSummary, eventView, error) {
	p := s.payments.findByID(id)
	if p == nil { // not of this shop, or of an earlier run
		a, err := s.ask(ctx, id)
		return a, eventView{}, err
	}
	if s.isTold.Load() {
		waiting, stop := context.WithTimeout(ctx, s.EventWait)
		select {
		case <-p.ended:
		case <-waiting.Done():
		}
		stop()
	}
	state := s.payments.snapshot(p)
	if state.end == nil {
		a, err := s.ask(ctx, id)
		if err != nil || !a.IsFinal() {
			return a, eventView{}, err
		}
		s.payments.recordAnswer(p, a)
		state = s.payments.snapshot(p)
	}
	event := eventView{IsPushed: state.isPushed, ID: state.event}
	if state.event != "" {
		event.At = state.eventAt.UTC().Format(time.TimeOnly)
	}
	return state.end, event, nil
}
