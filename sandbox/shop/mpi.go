package shop

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/client"
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

// fallBack goes on with 1.0.2 after /preauth said that the card is not enrolled.
// The caller holds the lock.
func (c *checkout) fallBack(e ending) {
	c.v1 = legacy{on: true, first: e}
	c.version = legacyVersion
	c.moveTo(enrolling)
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
	request := c.enrolledRequest()
	var sent []member
	for name, value := range request.Fields() {
		sent = append(sent, member{name, value})
	}
	c.panel.add(s.Now(), "Enrolled?", partyShop, partyMPI, compose(sent), "POST /enrolled, as a form")
	c.mu.Unlock()

	e, err := s.mpi.Enrolled(context.WithoutCancel(r.Context()), request)

	c.mu.Lock()
	c.polling, c.order.Card = false, ""
	var refusal *client.ParameterError
	switch {
	case err == nil:
		s.addMPIAnswer(c, "Enrolment", &e.Answer)
		s.handleEnrollment(c, e)
	case errors.As(err, &refusal):
		s.addMPIAnswer(c, "Enrolment", &refusal.Answer)
		c.end(c.v1.withoutAnswer(join(string(refusal.Message), refusal.Type, string(refusal.Param))))
	default:
		s.mpiFailed(c, "Enrolment", err)
	}
	c.panel.card = ""
	c.mu.Unlock()
	writeJSON(w, http.StatusOK, c.view())
}

// enrolledRequest is the request of /enrolled. The caller holds the lock.
func (c *checkout) enrolledRequest() client.EnrolledRequest {
	o := &c.order
	c.v1.amount = productAmount
	if o.Plan == "monthly" {
		c.v1.amount = monthlyAmount
	}
	c.v1.last4 = o.Card[len(o.Card)-4:]
	return client.EnrolledRequest{
		Amount: c.v1.amount, Currency: productCurrencyName, OrderID: rand.Text()[:20], CardholderIP: o.Browser.IP,
		Card: client.Card{Number: o.Card, ExpireMonth: o.Expiry[2:], ExpireYear: "20" + o.Expiry[:2]},
		Merchant: client.Merchant{
			AcquirerBIN: acquirerBIN, ID: acquirerID, Name: merchantName, Country: merchantCountryName, URL: c.base,
		},
	}
}

// handleEnrollment does what the answer of /enrolled asks for. The caller holds the
// lock.
func (s *Shop) handleEnrollment(c *checkout, e *client.Enrollment) {
	end := c.v1.first
	switch {
	case e.Enrolled == "Y" && isWeb(string(e.ACSURL)) && e.PAReq != "":
		c.v1.acsURL, c.v1.paReq = string(e.ACSURL), string(e.PAReq)
		text, err := decodePacked(c.v1.paReq)
		if err == nil {
			c.v1.xid = elementOf(text, "xid")
		}
		c.panel.addText(s.Now(), "PAReq", partyBrowser, partyACS, shownXML(text, err),
			"form fields PaReq, TermUrl and MD, posted from the challenge frame")
		c.deadline = s.Now().Add(s.ChallengeLimit)
		c.moveTo(challenge)
		return
	case e.Enrolled == "N":
		end.Text = "The card takes part neither in EMV 3-D Secure nor in 3-D Secure 1.0.2. The shop may authorise without authentication; the ECI tells the acquirer that it has asked."
		end.ECI = e.ECI
	case e.Enrolled == "U":
		end = endWith(unavailable)
		end.Text = "The card is not enrolled in EMV 3-D Secure, and the directory server of 3-D Secure 1.0.2 cannot say whether it takes part there. The shop may authorise without authentication, at its own risk."
		end.ECI = e.ECI
	case e.Enrolled == "" && e.Error != nil && join(e.Error.Message, e.Error.Detail) != "":
		end = c.v1.withoutAnswer(join(e.Error.Message, e.Error.Detail))
	default:
		end = endWithFault("The answer of /enrolled is not one that a shop can go on with.")
	}
	c.end(end)
}

// withoutAnswer is the ending of a checkout for which /enrolled gave no answer but a reason.
func (v *legacy) withoutAnswer(reason string) ending {
	end := v.first
	end.Text = "The card is not enrolled in EMV 3-D Secure, and 3-D Secure 1.0.2 gave no answer: " + reason + "."
	return end
}

// join is the texts that are not empty, separated by commas, without one that repeats the text before it.
func join(texts ...string) string {
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	return strings.Join(slices.Compact(texts), ", ")
}

// addMPIAnswer shows an answer of the merchant plug-in on the wire panel. The caller holds the lock.
func (s *Shop) addMPIAnswer(c *checkout, name string, a *client.Answer) {
	if a != nil && len(a.Raw) > 0 {
		c.panel.add(s.Now(), name, partyMPI, partyShop, a.Raw, "")
	}
}

// mpiFailed ends a checkout after a call of the merchant plug-in that brought no answer, or one that cannot be read.
// The caller holds the lock.
func (s *Shop) mpiFailed(c *checkout, name string, err error) {
	a := client.AnswerOf(err)
	s.addMPIAnswer(c, name, a)
	s.Log.Warn("shop: call of the merchant plug-in", "err", err)
	if a == nil {
		c.end(endWithFault("The merchant plug-in cannot be reached."))
		return
	}
	c.end(endWithFault("The merchant plug-in's answer cannot be read. Is the API key the right one, and the address?"))
}

// paResNotice is TermUrl: where the issuer sends the browser back. What comes
// has passed through the browser, and nothing of it is believed before /check.
func (s *Shop) paResNotice(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxNotice)
	paRes, mark := r.PostFormValue("PaRes"), r.PostFormValue("MD")
	c := s.checkouts.findByNotice(mark)
	if c == nil || c.session != mark {
		s.showNeutral(w, http.StatusNotFound)
		return
	}
	c.mu.Lock()
	text, err := decodePacked(paRes)
	shown := shownXML(text, err)
	waits := c.v1.on && !c.v1.checking && (c.state == challenge || c.state == returned)
	if !waits {
		c.panel.addText(s.Now(), "PARes", partyACS, partyShop, shown, "ignored: not asked for, or too late")
		c.mu.Unlock()
		s.showNeutral(w, http.StatusConflict)
		return
	}
	c.panel.addText(s.Now(), "PARes", partyACS, partyShop, shown,
		"by way of the browser; what it says counts once it was checked")
	c.v1.checking = true
	c.moveTo(returned)
	sent := []member{{"pares", paRes}}
	c.panel.add(s.Now(), "Check", partyShop, partyMPI, compose(sent), "POST /check, as a form")
	c.mu.Unlock()

	got, err := s.mpi.Check(context.WithoutCancel(r.Context()), paRes)

	c.mu.Lock()
	var refusal *client.ParameterError
	switch {
	case err == nil:
		s.addMPIAnswer(c, "Checked", &got.Answer)
		c.end(c.v1.verdict(got))
	case errors.As(err, &refusal):
		s.addMPIAnswer(c, "Checked", &refusal.Answer)
		e := endWith(failed)
		e.Text = "The PARes that came by way of the browser is not one that the bank has signed (/check: " +
			join(string(refusal.Message), refusal.Type, string(refusal.Param)) + "). The shop must not go on with it."
		c.end(e)
	default:
		s.mpiFailed(c, "Checked", err)
	}
	c.mu.Unlock()
	s.notice(w, "challenge")
}

// waitForPARes ends a checkout whose cardholder has not come back in time: in 1.0.2 no other party can be asked. The
// caller holds the lock.
func (c *checkout) waitForPARes(now time.Time) {
	if (c.state == challenge || c.state == returned) && !c.v1.checking && now.After(c.deadline) {
		c.end(c.lateEnding())
	}
}

// verdict returns the ending for an answer of /check. The signature is good, but the caller must check that the answer
// is about this payment.
func (v *legacy) verdict(got *client.Checked) ending {
	if what := v.differs(got); what != "" {
		e := endWith(failed)
		e.Text = "The bank's answer is genuine, and not for this payment: " + what +
			" is another one. The shop must not go on with it."
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
func (v *legacy) differs(got *client.Checked) string {
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
