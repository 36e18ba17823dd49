package shop

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// maxNotice bounds a notice: a CRes may have fifteen extensions of 8 kB.
const maxNotice = 512 << 10

// methodData is what the 3DS Method's form carries, both ways.
type methodData struct {
	ServerTransID   string `json:"threeDSServerTransID"`
	NotificationURL string `json:"threeDSMethodNotificationURL,omitempty"`
}

// onCheckout finds the checkout that a path names.
func (s *Shop) onCheckout(handle func(*Shop, http.ResponseWriter, *http.Request, *checkout)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := s.checkouts.find(r.PathValue("id"))
		if c == nil {
			writeJSON(w, http.StatusNotFound, faults{"": "This checkout is over, or too old."})
			return
		}
		handle(s, w, r, c)
	}
}

// methodFrame is the page in the hidden iframe: it posts the 3DS Method's form
// to the ACS.
func (s *Shop) methodFrame(w http.ResponseWriter, _ *http.Request, c *checkout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != method || c.method.url == "" {
		s.showNeutral(w, http.StatusConflict)
		return
	}
	data := marshal(methodData{c.transID, c.base + "/notify/method"})
	if !c.method.started {
		c.method.started = true
		c.panel.add(s.Now(), "3DS Method data", partyBrowser, partyACS, data,
			"form field threeDSMethodData, posted from a hidden frame")
	}
	s.form(w, c.method.url, field{"threeDSMethodData", encode(data)})
}

// challengeFrame is the first page in the challenge's iframe: it posts the
// CReq, or in 1.0.2 the PAReq, to the ACS. Loaded again, it posts the same bytes.
func (s *Shop) challengeFrame(w http.ResponseWriter, _ *http.Request, c *checkout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != challenge {
		s.showNeutral(w, http.StatusConflict)
		return
	}
	if c.v1.on {
		s.form(w, c.v1.acsURL, field{"PaReq", c.v1.paReq}, field{"TermUrl", c.base + "/notify/pares"}, field{"MD", c.session})
		return
	}
	s.form(w, c.ares.ACSURL, field{"creq", encode(c.creq)}, field{"threeDSSessionData", encode([]byte(c.session))})
}

// methodNotice is where the ACS sends the browser when the 3DS Method is over.
func (s *Shop) methodNotice(w http.ResponseWriter, r *http.Request) {
	raw := formValue(w, r, "threeDSMethodData")
	var data methodData
	if json.Unmarshal(raw, &data) != nil {
		s.showNeutral(w, http.StatusBadRequest)
		return
	}
	c := s.checkouts.findByNotice(data.ServerTransID)
	if c == nil || c.transID != data.ServerTransID {
		s.showNeutral(w, http.StatusNotFound)
		return
	}
	c.mu.Lock()
	inTime := c.state == method && c.method.url != ""
	note := "threeDSCompInd will be Y"
	if !inTime {
		note = "ignored: too late, or not asked for"
	}
	c.method.noticed = c.method.noticed || inTime
	c.panel.add(s.Now(), "3DS Method notice", partyACS, partyShop, raw, note)
	c.mu.Unlock()
	if !inTime {
		s.showNeutral(w, http.StatusConflict)
		return
	}
	s.notice(w, "method")
}

// challengeNotice is where the ACS sends the browser when the challenge is
// over. What it brings is a notice and never the result, which only the 3DS
// server can tell.
func (s *Shop) challengeNotice(w http.ResponseWriter, r *http.Request) {
	raw := formValue(w, r, "cres", "erro", "error")
	var m message
	bad := json.Unmarshal(raw, &m) != nil
	session, _ := decode(r.PostFormValue("threeDSSessionData"))
	c := s.checkouts.findByNotice(string(session))
	if c == nil {
		c = s.checkouts.findByNotice(m.ServerTransID)
	}
	if c == nil {
		s.showNeutral(w, http.StatusNotFound)
		return
	}
	c.mu.Lock()
	note := c.noticeFault(&m)
	if bad {
		note = "neither base64url nor a message"
	}
	name := m.MessageType
	if name != "Erro" {
		name = "CRes"
	}
	if note == "" {
		c.panel.add(s.Now(), name, partyACS, partyShop, raw, "by way of the browser; a notice, not the result")
		s.cardholderReturned(c, &m)
	} else {
		c.panel.add(s.Now(), name, partyACS, partyShop, raw, "ignored: "+note)
	}
	c.mu.Unlock()
	if note != "" {
		s.showNeutral(w, http.StatusConflict)
		return
	}
	s.notice(w, "challenge")
}

// cardholderReturned moves a checkout on when the cardholder is back. After an Erro no
// result may ever come, so it waits less. The caller holds the lock.
func (s *Shop) cardholderReturned(c *checkout, m *message) {
	if !c.moveTo(returned) {
		return
	}
	c.deadline = s.Now().Add(s.ResultWait)
	if m.MessageType == "Erro" {
		c.erro = m
		c.deadline = s.Now().Add(s.CancelWait)
	}
}

// noticeFault says why a notice is not for this challenge, "" when it is. The caller
// holds the lock.
func (c *checkout) noticeFault(m *message) string {
	switch {
	case c.creq == nil:
		return "no challenge was asked for"
	case m.MessageType == "Erro" && (m.ServerTransID == "" || m.ServerTransID == c.transID):
		return ""
	case m.MessageType != "CRes" && m.MessageType != "Erro":
		return "neither a CRes nor an Erro"
	case m.ServerTransID != c.transID:
		return "threeDSServerTransID is another one"
	case m.ACSTransID != c.ares.ACSTransID:
		return "acsTransID is another one"
	case m.MessageVersion != c.version:
		return "messageVersion is another one"
	}
	return ""
}

// formValue decodes the first field of a form that is there.
func formValue(w http.ResponseWriter, r *http.Request, names ...string) []byte {
	r.Body = http.MaxBytesReader(w, r.Body, maxNotice)
	for _, name := range names {
		if text := r.PostFormValue(name); text != "" {
			raw, err := decode(text)
			if err != nil {
				return nil
			}
			return raw
		}
	}
	return nil
}

// isWeb reports whether an address from a message is one that a browser may be
// sent to.
func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}
