package shop

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A state says what a checkout waits for. The page does what the state asks
// for and knows nothing else.
type state string

const (
	starting   state = "starting"   // the answer to /preauth
	enrolling  state = "enrolling"  // the page to ask for 1.0.2, and the answer to /enrolled
	method     state = "method"     // the page to run the 3DS Method, if any, and to go on
	asking     state = "asking"     // the answer to /auth
	challenge  state = "challenge"  // the cardholder, in the bank's page
	returned   state = "returned"   // the result, the cardholder being back
	confirming state = "confirming" // the browser's own dialog, in which the cardholder confirms
	decoupled  state = "decoupled"  // the result, the cardholder being elsewhere
	done       state = "done"       // nothing
)

// next lists the arrows between states. Every state may end.
var next = map[state][]state{
	starting:  {method, enrolling},
	enrolling: {challenge},
	method:    {asking},
	asking:    {challenge, decoupled, confirming},

	confirming: {asking},
	challenge:  {returned},
}

// A checkout is one attempt to pay.
type checkout struct {
	id      string // for the page
	session string // for the ACS, as threeDSSessionData or MD
	began   time.Time

	over atomic.Bool // it has ended

	mu       sync.Mutex
	state    state
	order    order // the card number is gone once /auth or /enrolled was answered
	base     string
	scheme   string
	version  string
	transID  string
	method   methodRun
	v1       legacy
	ares     message
	confirm  *confirmation
	creq     []byte // made once: a reloaded frame posts the same bytes
	info     string // what the bank wants the cardholder to read
	deadline time.Time
	polling  bool     // a call of /postauth or /enrolled is under way
	canceled bool     // by the cardholder, in the shop's dialog
	erro     *message // that the ACS sent instead of a CRes
	ending   *ending
	panel    messagePanel
}

// methodRun is how the 3DS Method went.
type methodRun struct {
	url     string
	limit   time.Duration
	started bool   // the frame was loaded
	noticed bool   // the ACS said that it is through
	compInd string // what the AReq said of it
}

// moveTo moves the checkout on and reports whether its state has such an arrow.
// The caller holds the lock.
func (c *checkout) moveTo(s state) bool {
	isAllowed := slices.Contains(next[c.state], s)
	if isAllowed {
		c.state = s
	}
	return isAllowed
}

// end settles how the checkout went; the first ending stays. The caller holds
// the lock.
func (c *checkout) end(e ending) {
	if c.state == done {
		return
	}
	if e.Erro != nil {
		for _, text := range []*string{&e.Erro.Code, &e.Erro.Component, &e.Erro.Description, &e.Erro.Detail} {
			*text = c.panel.hideSecrets(maskDigits(*text))
		}
	}
	e.Text = c.panel.hideSecrets(maskDigits(e.Text))
	c.state, c.ending = done, &e
	c.over.Store(true)
	c.order.Card, c.panel.card = "", ""
}

// view is everything that the page gets. Its texts are safe to show.
type view struct {
	ID       string      `json:"id"`
	State    state       `json:"state"`
	Scheme   string      `json:"scheme,omitempty"`
	Version  string      `json:"version,omitempty"`
	Method   *methodView `json:"method,omitempty"`
	Window   string      `json:"window,omitempty"`
	Size     *size       `json:"size,omitempty"`
	Info     string      `json:"info,omitempty"`
	Canceled bool        `json:"canceled,omitempty"`

	Confirm *confirmationView `json:"confirm,omitempty"`

	Ending *ending    `json:"ending,omitempty"`
	Wire   []exchange `json:"wire"`
}

type methodView struct {
	Run     bool   `json:"run"` // there is a 3DS Method to run
	Limit   int64  `json:"limit"`
	Noticed bool   `json:"noticed"`
	CompInd string `json:"compInd,omitempty"`
}

func (c *checkout) view() view {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := view{
		ID: c.id, State: c.state, Scheme: visible(c.scheme), Version: visible(c.version), Info: visible(c.info),
		Canceled: c.canceled, Ending: c.ending.visible(), Wire: c.panel.all(),
	}
	for i := range v.Wire {
		for _, text := range []*string{&v.Wire[i].Name, &v.Wire[i].Note, &v.Wire[i].Body} {
			*text = visible(*text)
		}
	}
	if c.version != "" && !c.v1.on {
		v.Method = &methodView{c.method.url != "", c.method.limit.Milliseconds(), c.method.noticed, c.method.compInd}
	}
	if c.state == confirming {
		v.Confirm = &confirmationView{c.ares.Credentials, c.ares.Confirmation}
	}
	if c.state == challenge {
		s := windows[c.order.Window]
		v.Window, v.Size = c.order.Window, &s
	}
	return v
}
