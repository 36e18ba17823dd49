package shop

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// legacyVersion is what the shop falls back to for a card that is not enrolled
// in EMV 3-D Secure.
const legacyVersion = "1.0.2"

// legacy is a checkout in 3-D Secure 1.0.2.
type legacy struct {
	on       bool
	first    ending // the card is not enrolled: what there is to say if it comes to nothing
	paReq    string
	acsURL   string
	xid      string // of the PAReq; "" when it cannot be read
	amount   string
	last4    string
	checking bool // a PARes has come
}

// enrollment is the answer of /enrolled.
type enrollment struct {
	ACSURL   string        `json:"acs_url"`
	PAReq    string        `json:"pareq"`
	Enrolled string        `json:"enrolled"`
	ECI      string        `json:"eci"`
	Error    *mpiComplaint `json:"error"`
}

// mpiComplaint is an error of the merchant plug-in: of a directory server's, or
// of a parameter.
type mpiComplaint struct {
	Message string `json:"message"`
	Detail  string `json:"detail"`
	Param   string `json:"param"`
	Type    string `json:"type"`
}

// checked is the answer of /check.
type checked struct {
	Amount     string        `json:"amount"`
	Currency   string        `json:"currency"`
	CAVV       string        `json:"cavv"`
	ECI        string        `json:"eci"`
	MerchantID string        `json:"merchant_id"`
	Last4      string        `json:"last4"`
	Status     string        `json:"status"`
	XID        string        `json:"xid"`
	Error      *mpiComplaint `json:"error"`
}

// fallBack goes on with 1.0.2 after /preauth said that the card is not enrolled.
// The caller holds the lock.
func (c *checkout) fallBack(e ending) {
	c.v1 = legacy{on: true, first: e}
	c.version = legacyVersion
	c.to(enrolling)
}

// enrol asks the merchant plug-in whether the card takes part in 1.0.2. The
// page calls it; a second call changes nothing.
func (s *Shop) enrol(w http.ResponseWriter, r *http.Request, c *checkout) {
	c.mu.Lock()
	if c.state != enrolling || c.polling {
		c.mu.Unlock()
		writeJSON(w, http.StatusOK, c.view())
		return
	}
	c.polling = true
	sent := c.enrollmentRequest()
	c.wire.add(s.Now(), "Enrolled?", partyShop, partyMPI, compose(sent), "POST /enrolled, as a form")
	c.mu.Unlock()

	var e enrollment
	raw, err := s.mpi.callForm(context.WithoutCancel(r.Context()), "/enrolled", sent, &e)

	c.mu.Lock()
	c.polling, c.order.Card = false, ""
	if s.told(c, "Enrolment", "/enrolled", raw, err) {
		s.enrolled(c, &e)
	}
	c.wire.card = ""
	c.mu.Unlock()
	writeJSON(w, http.StatusOK, c.view())
}

// enrollmentRequest is the form of /enrolled. The caller holds the lock.
func (c *checkout) enrollmentRequest() []member {
	o := &c.order
	c.v1.amount = productAmount
	if o.Plan == "monthly" {
		c.v1.amount = monthlyAmount
	}
	c.v1.last4 = o.Card[len(o.Card)-4:]
	return []member{
		{"amount", c.v1.amount},
		{"currency", productCurrencyName},
		{"order_id", rand.Text()[:20]},
		{"cardholder_ip", o.Browser.IP},
		{"card[number]", o.Card},
		{"card[expire_month]", o.Expiry[2:]},
		{"card[expire_year]", "20" + o.Expiry[:2]},
		{"merchant[acquirer_bin]", acquirerBIN},
		{"merchant[id]", acquirerID},
		{"merchant[name]", merchantName},
		{"merchant[country]", merchantCountryName},
		{"merchant[url]", c.base},
	}
}

// enrolled does what the answer of /enrolled asks for. The caller holds the
// lock.
func (s *Shop) enrolled(c *checkout, e *enrollment) {
	end := c.v1.first
	switch {
	case e.Enrolled == "Y" && isWeb(e.ACSURL) && e.PAReq != "":
		c.v1.acsURL, c.v1.paReq = e.ACSURL, e.PAReq
		text, err := unpack(e.PAReq)
		if err == nil {
			c.v1.xid = elementOf(text, "xid")
		}
		c.wire.addText(s.Now(), "PAReq", partyBrowser, partyACS, shownXML(text, err), "form fields PaReq, TermUrl and MD, posted from the challenge frame")
		c.deadline = s.Now().Add(s.ChallengeLimit)
		c.to(challenge)
		return
	case e.Enrolled == "N":
		end.Text = "The card takes part neither in EMV 3-D Secure nor in 3-D Secure 1.0.2. The shop may authorise without authentication; the ECI tells the acquirer that it has asked."
		end.ECI = e.ECI
	case e.Enrolled == "U":
		end = endWith(unavailable)
		end.Text = "The card is not enrolled in EMV 3-D Secure, and the directory server of 3-D Secure 1.0.2 cannot say whether it takes part there. The shop may authorise without authentication, at its own risk."
		end.ECI = e.ECI
	case e.Enrolled == "" && e.Error != nil && e.Error.text() != "":
		end.Text = "The card is not enrolled in EMV 3-D Secure, and 3-D Secure 1.0.2 gave no answer: " + e.Error.text() + "."
	default:
		end = endWithFault("The answer of /enrolled is not one that a shop can go on with.")
	}
	c.end(end)
}

func (m *mpiComplaint) text() string {
	var parts []string
	for _, part := range []string{m.Message, m.Detail, m.Type, m.Param} {
		if part != "" && (len(parts) == 0 || part != parts[len(parts)-1]) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// told puts an answer of the merchant plug-in on the wire panel and reports
// whether it can be read; otherwise the checkout has ended. The caller holds the
// lock.
func (s *Shop) told(c *checkout, name, operation string, raw []byte, err error) bool {
	if len(raw) > 0 {
		c.wire.add(s.Now(), name, partyMPI, partyShop, raw, "")
	}
	if err == nil {
		return true
	}
	s.Log.Warn("shop: call of the merchant plug-in", "operation", operation, "err", err)
	if errors.Is(err, errNotMessage) {
		c.end(endWithFault("The merchant plug-in's answer cannot be read. Is the API key the right one, and the address?"))
	} else {
		c.end(endWithFault("The merchant plug-in cannot be reached."))
	}
	return false
}

// paResNotice is TermUrl: where the issuer sends the browser back. What comes
// has passed through the browser, and nothing of it is believed before /check.
func (s *Shop) paResNotice(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxNotice)
	paRes, mark := r.PostFormValue("PaRes"), r.PostFormValue("MD")
	c := s.till.notified(mark)
	if c == nil || c.session != mark {
		s.neutral(w, http.StatusNotFound)
		return
	}
	c.mu.Lock()
	text, err := unpack(paRes)
	shown := shownXML(text, err)
	waits := c.v1.on && !c.v1.checking && (c.state == challenge || c.state == returned)
	if !waits {
		c.wire.addText(s.Now(), "PARes", partyACS, partyShop, shown, "ignored: not asked for, or too late")
		c.mu.Unlock()
		s.neutral(w, http.StatusConflict)
		return
	}
	c.wire.addText(s.Now(), "PARes", partyACS, partyShop, shown, "by way of the browser; what it says counts once it was checked")
	c.v1.checking = true
	c.to(returned)
	sent := []member{{"pares", paRes}}
	c.wire.add(s.Now(), "Check", partyShop, partyMPI, compose(sent), "POST /check, as a form")
	c.mu.Unlock()

	var got checked
	raw, err := s.mpi.callForm(context.WithoutCancel(r.Context()), "/check", sent, &got)

	c.mu.Lock()
	if s.told(c, "Checked", "/check", raw, err) {
		c.end(c.v1.verdict(&got))
	}
	c.mu.Unlock()
	s.notice(w, "challenge")
}

// waitForPARes ends a checkout whose cardholder has not come back in time: in
// 1.0.2 there is nobody else to ask. The caller holds the lock.
func (c *checkout) waitForPARes(now time.Time) {
	if (c.state == challenge || c.state == returned) && !c.v1.checking && now.After(c.deadline) {
		c.end(c.lateness())
	}
}

// verdict is the ending that the answer of /check brings. The signature is
// good: that it is about this payment is for the caller to see.
func (v *legacy) verdict(got *checked) ending {
	if got.Error != nil {
		e := endWith(failed)
		e.Text = "The PARes that came by way of the browser is not one that the bank has signed (/check: " + got.Error.text() + "). The shop must not go on with it."
		return e
	}
	if what := v.differs(got); what != "" {
		e := endWith(failed)
		e.Text = "The bank's answer is genuine, and not for this payment: " + what + " is another one. The shop must not go on with it."
		return e
	}
	e := endWithStatus(&message{TransStatus: got.Status, ECI: got.ECI, Value: got.CAVV})
	switch e.Word {
	case authenticated:
		e.Text = strings.NewReplacer("authentication value", "CAVV").Replace(e.Text)
	case unavailable:
		e.Text = "The bank could not authenticate in 3-D Secure 1.0.2. The shop may authorise without, at its own risk."
	}
	return e
}

// differs names what is not as it was asked for. There is a card in Y and A
// alone.
func (v *legacy) differs(got *checked) string {
	for _, same := range []struct{ name, got, want string }{
		{"the amount", strings.TrimLeft(got.Amount, "0"), v.amount},
		{"the currency", got.Currency, productCurrencyName},
		{"the merchant", got.MerchantID, acquirerID},
		{"the transaction", got.XID, v.xid},
	} {
		if same.got != same.want && same.want != "" {
			return same.name
		}
	}
	if (got.Status == "Y" || got.Status == "A") && got.Last4 != v.last4 {
		return "the card"
	}
	return ""
}

// callForm posts fields to an operation of the merchant plug-in and reads its
// answer, which is JSON, into one.
func (c *client) callForm(ctx context.Context, operation string, fields []member, into any) ([]byte, error) {
	form := url.Values{}
	for _, f := range fields {
		form.Set(f.name, fmt.Sprint(f.value))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+operation, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(c.key, "")
	res, raw, err := c.exchange(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusBadRequest || json.Unmarshal(raw, into) != nil {
		return raw, fmt.Errorf("%s: status %d: %w", operation, res.StatusCode, errNotMessage)
	}
	return raw, nil
}
