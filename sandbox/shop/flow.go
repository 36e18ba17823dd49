package shop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxOrder bounds what the page may send.
const maxOrder = 16 << 10

// openCheckout opens a checkout: it asks the 3DS server for the card's versions and
// chooses one. Answers with the view of the checkout, or with what to correct.
func (s *Shop) openCheckout(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(&o); err != nil {
		writeJSON(w, http.StatusBadRequest, faults{"": "The order could not be read."})
		return
	}
	if bad := o.normalise(); len(bad) > 0 {
		writeJSON(w, http.StatusUnprocessableEntity, faults(bad))
		return
	}
	o.Browser.addHeaders(r)
	c, err := s.checkouts.open()
	if err != nil {
		w.Header().Set("Retry-After", "60")
		writeJSON(w, http.StatusServiceUnavailable,
			faults{"": "The shop is full at the moment. Please try again in a minute."})
		return
	}
	c.order, c.base = o, s.base(r)
	c.panel.key, c.panel.card = s.APIKey, o.Card
	s.preauth(r.Context(), c)
	writeJSON(w, http.StatusOK, c.view())
}

// faults are what the shopper has to correct, by field; "" is the whole.
type faults map[string]string

func (f faults) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]map[string]string{"faults": f})
}

// addHeaders fills in what the back end alone sees of the browser.
func (b *browser) addHeaders(r *http.Request) {
	b.Accept = cmp.Or(strings.Join(r.Header.Values("Accept"), ","), "*/*")
	b.Languages = languages(r.Header.Values("Accept-Language"))
	if b.UserAgent == "" {
		b.UserAgent = r.UserAgent()
	}
	b.IP = r.RemoteAddr
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		b.IP = host
	}
}

// languages are the tags of an Accept-Language header, each once, as many and as
// long ones as acceptLanguage takes.
func languages(header []string) []string {
	var tags []string
	for part := range strings.SplitSeq(strings.Join(header, ","), ",") {
		tag, _, _ := strings.Cut(part, ";") // without its weight
		tag = strings.TrimSpace(tag)
		if tag != "" && len(tag) <= 100 && len(tags) < 99 && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

func (s *Shop) preauth(ctx context.Context, c *checkout) {
	sent := compose([]member{{"acctNumber", c.order.Card}})
	got, err := s.callPreauth(ctx, c.order.Card)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.panel.add(s.Now(), "Card check", partyShop, partyServer, sent, "POST /preauth")
	if !s.recordAnswer(c, "/preauth", got, err) {
		return
	}
	crd := &got.message
	switch {
	case crd.MessageType == "Erro" && crd.ErrorCode == "305":
		e := endWithErro(crd)
		e.Word, e.Title, e.Text = notEnrolled, endings[notEnrolled].Title, endings[notEnrolled].Text
		c.fallBack(e)
		return
	case crd.MessageType == "Erro":
		c.end(endWithErro(crd))
		return
	case crd.MessageType != "CRD" || crd.ServerTransID == "":
		c.end(endWithFault("The 3DS server answered the card check with something else than a CRD."))
		return
	}
	c.scheme, c.transID, c.version = crd.Scheme, crd.ServerTransID, c.order.Version
	if c.version == "" {
		c.version = highest(crd)
	}
	if c.version == "" {
		c.end(endWithFault("Directory server, ACS, 3DS server and shop have no protocol version in common."))
		return
	}
	c.method.url, _ = methodURL(crd, c.version)
	if !isWeb(c.method.url) {
		c.method.url = ""
	}
	c.method.limit = s.methodLimit(c.version)
	c.moveTo(method)
	s.checkouts.addAlias(c, c.transID)
}

// recordAnswer puts an answer of the API on the wire panel and reports whether it
// is a message; otherwise the checkout has ended. The caller holds the lock.
func (s *Shop) recordAnswer(c *checkout, operation string, got answer, err error) bool {
	if len(got.raw) > 0 {
		name := cmp.Or(got.message.MessageType, "No message")
		c.panel.add(s.Now(), name, partyServer, partyShop, got.raw, got.note)
	}
	if err == nil {
		return true
	}
	s.Log.Warn("shop: call of the 3DS server", "operation", operation, "err", err)
	if errors.Is(err, errNotMessage) {
		c.end(endWithFault("The 3DS server's answer is not a message. Is the API key the right one, and the address?"))
	} else {
		c.end(endWithFault("The 3DS server cannot be reached."))
	}
	return false
}

// methodLimit is the time that the 3DS Method has.
func (s *Shop) methodLimit(version string) time.Duration {
	switch {
	case s.MethodLimit > 0:
		return s.MethodLimit
	case version >= "2.3.1":
		return 5 * time.Second
	}
	return 10 * time.Second
}

// authenticate sends the AReq. The page calls it when the 3DS Method is over,
// one way or the other; a second call changes nothing.
func (s *Shop) authenticate(w http.ResponseWriter, r *http.Request, c *checkout) {
	c.mu.Lock()
	if !c.moveTo(asking) {
		c.mu.Unlock()
		writeJSON(w, http.StatusOK, c.view())
		return
	}
	c.method.compInd = c.method.outcome()
	request := areq{c.version, c.transID, c.method.compInd, c.base, s.Now(), c.order, nil}
	c.confirm = &confirmation{at: request.at}
	sent := request.json()
	c.panel.add(s.Now(), "AReq", partyShop, partyServer, sent, "POST /auth")
	c.mu.Unlock()

	// A page that goes away must not take the answer with it: the transaction
	// is under way, and a reload shows how it went.
	got, err := s.callAuth(context.WithoutCancel(r.Context()), sent)

	c.mu.Lock()
	if s.recordAnswer(c, "/auth", got, err) {
		s.handleARes(c, &got.message)
	}
	c.forgetCard()
	c.mu.Unlock()
	writeJSON(w, http.StatusOK, c.view())
}

// outcome is the threeDSCompInd of a method run.
func (m *methodRun) outcome() string {
	switch {
	case m.url == "":
		return "U"
	case m.noticed:
		return "Y"
	}
	return "N"
}

// handleARes does what an ARes asks for. The caller holds the lock.
func (s *Shop) handleARes(c *checkout, ares *message) {
	switch {
	case ares.MessageType == "Erro":
		c.end(endWithErro(ares))
		return
	case ares.MessageType != "ARes" || ares.ServerTransID != c.transID:
		c.end(endWithFault("The 3DS server answered the AReq with something else than its ARes."))
		return
	}
	c.ares, c.info = *ares, string(ares.CardholderInfo)
	switch ares.TransStatus {
	case "C":
		if !isWeb(ares.ACSURL) {
			c.end(endWithFault("The ARes asks for a challenge and names no address for it."))
			return
		}
		c.creq = c.challengeRequest()
		c.panel.add(s.Now(), "CReq", partyBrowser, partyACS, c.creq, "form field creq, posted from the challenge frame")
		c.deadline = s.Now().Add(s.ChallengeLimit)
		c.moveTo(challenge)
	case "S":
		if c.confirm.second || len(ares.Confirmation) == 0 || len(ares.Credentials) == 0 {
			c.end(endWithStatus(ares)) // there is nothing to confirm, or it was confirmed before
			return
		}
		c.deadline = s.Now().Add(confirmTime)
		c.moveTo(confirming)
	case "D":
		c.deadline = s.Now().Add(s.CheckoutAge)
		c.moveTo(decoupled)
	default:
		c.end(endWithStatus(ares))
	}
}

// challengeRequest is the CReq. The caller holds the lock.
func (c *checkout) challengeRequest() []byte {
	return compose([]member{
		{"messageType", "CReq"},
		{"messageVersion", c.version},
		{"threeDSServerTransID", c.transID},
		{"acsTransID", c.ares.ACSTransID},
		{"challengeWindowSize", c.order.Window},
	})
}

// cancel is called when the cardholder closes the dialog. The shop cannot inform the ACS: only the ACS's own page can
// cancel. So the shop waits a little for a result that may be on its way, and then ends the payment.
func (s *Shop) cancel(w http.ResponseWriter, _ *http.Request, c *checkout) {
	c.mu.Lock()
	if c.moveTo(returned) {
		c.canceled = true
		c.deadline = s.Now().Add(s.CancelWait)
	}
	c.mu.Unlock()
	writeJSON(w, http.StatusOK, c.view())
}

// show tells the page where the checkout stands.
func (s *Shop) show(w http.ResponseWriter, _ *http.Request, c *checkout) {
	writeJSON(w, http.StatusOK, c.view())
}

// result asks the 3DS server for the result, once. The page calls it again
// and again while it waits; the deadline is kept here.
func (s *Shop) result(w http.ResponseWriter, r *http.Request, c *checkout) {
	c.mu.Lock()
	if c.v1.on {
		c.waitForPARes(s.Now())
	}
	waits := c.state == challenge || c.state == returned || c.state == decoupled
	mine := waits && !c.polling && !c.v1.on
	c.polling = c.polling || mine
	c.mu.Unlock()
	if mine {
		s.postauth(r.Context(), c)
	}
	writeJSON(w, http.StatusOK, c.view())
}

func (s *Shop) postauth(ctx context.Context, c *checkout) {
	sent := compose([]member{{"threeDSServerTransID", c.transID}})
	got, err := s.callPostAuth(ctx, c.transID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polling = false
	if c.state == done {
		return
	}
	m := &got.message
	name := cmp.Or(m.MessageType, "No message")
	c.panel.addQuestion(s.Now(), "Result?", "POST /postauth", sent, name, got.raw, "")
	switch {
	case err == nil && m.MessageType == "RReq" && m.ServerTransID == c.transID:
		c.end(endWithStatus(m))
	case err == nil && m.MessageType == "Erro" && !m.isPending():
		c.end(endWithErro(m))
	case errors.Is(err, errNotMessage):
		c.end(endWithFault("The 3DS server's answer is not a message."))
	case s.Now().After(c.deadline): // nothing yet, or a lost call
		c.end(c.lateEnding())
	}
}

// lateEnding is the ending when no result came in time. The caller holds the
// lock.
func (c *checkout) lateEnding() ending {
	switch {
	case c.erro != nil:
		return endWithErro(c.erro)
	case c.canceled:
		return endWith(cancelled)
	case c.state == returned:
		return endWith(missing)
	}
	return endWith(timedOut)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(marshal(v)) // the browser may be gone
}
