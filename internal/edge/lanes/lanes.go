// Package lanes draws what passed between the five parties of an authentication, for the console and the demo shop. Use
// [HopOf] for each step, [Draw] for the drawing, and [NewCard] for the elements of a message. [AddTemplates] adds the
// templates that show them; [Tokens], [Base] and [Styles] are their style. [Picture] makes an image for a page of the
// documentation.
//
// The parties are always drawn in the same order and with the same words. Nothing here masks: what is drawn has been
// masked before.
package lanes

import (
	"embed"
	"html/template"
	"time"

	"github.com/openthreeds/threeds/message"
)

// A Lane is a party, in the order in which they are always drawn.
type Lane int

// The parties.
const (
	Browser Lane = iota
	Shop
	Server
	Directory
	Issuer
)

// letters are the ends of the classes that give a lane its colour.
var letters = [...]string{"b", "s", "u", "d", "i"}

func (l Lane) fill() string { return "l" + letters[l] }

func (l Lane) stroke() string {
	if l == Browser {
		return "sb1" // sb is a class of another meaning
	}
	return "s" + letters[l]
}

// A Party is what stands above a lane.
type Party struct{ Name, Sub string }

// A Beyond says whether a message goes on between the directory server and the issuer, or comes from there.
type Beyond int

// The ways beyond the directory server.
const (
	Ends   Beyond = iota // the message begins or ends with the directory server
	Unseen               // it goes on, and who draws does not see that
	Seen                 // it goes on, and who draws sees both ends
)

// A Step is something that happened at a time.
type Step struct {
	Step     string // its name, one of the journal's or of [HopOf]
	Name     string // as on the wire; "" means what [HopOf] says
	At       time.Time
	Gist     string // in a few words; "" means what [HopOf] says
	Message  []byte // masked JSON; nil if it has none, or it is not kept
	Findings []string
}

// A Hop is a step as it is drawn: an arrow from one lane to another.
type Hop struct {
	Key    string // by which an address chooses it
	Name   string // as on the wire
	Gist   string // what it says, in a few words
	Link   string // the address of the page that shows it
	At     time.Time
	From   Lane
	To     Lane
	Beyond Beyond
	Self   bool   // it is no message
	Waits  Lane   // the party that the others wait for after this step
	Doing  string // what that party does
}

const atBank = "while the shopper is at the bank"

// hops are the messages by the names of the steps.
var hops = map[string]Hop{
	"request": {Name: "request", From: Shop, To: Server, Waits: Server},
	"created": {Name: "201", Gist: "waits for the browser", From: Server, To: Shop, Waits: Browser,
		Doing: "page loads"},
	"lookup": {Name: "look-up", Self: true, From: Server, To: Server, Waits: Server},
	"method": {Name: "3DS Method", Gist: "hidden frame", From: Browser, To: Issuer, Waits: Issuer,
		Doing: "3DS Method"},
	"areq": {Name: "AReq", From: Server, To: Directory, Beyond: Unseen, Waits: Directory,
		Doing: "directory and issuer decide"},
	"ares":     {Name: "ARes", From: Directory, To: Server, Beyond: Unseen, Waits: Server},
	"answered": {Name: "answer", From: Server, To: Shop, Waits: Shop, Doing: "shop"},
	"spc": {Name: "payment dialog", Gist: "show it", From: Server, To: Browser, Waits: Browser,
		Doing: "the browser’s own dialog"},
	"spc.answer": {Name: "payment dialog", Gist: "what came of it", From: Browser, To: Server, Waits: Server},
	"challenge": {
		Name: "challenge", From: Server, To: Browser, Waits: Issuer, Doing: atBank,
	},
	"creq": {Name: "CReq", Gist: "the bank’s page opens", From: Browser, To: Issuer, Waits: Issuer, Doing: atBank},
	"cres": {Name: "CRes", Gist: "never a result", From: Issuer, To: Browser, Waits: Server},
	"rreq": {Name: "RReq", From: Directory, To: Server, Beyond: Unseen, Waits: Server},
	"rres": {Name: "RRes", Gist: "received", From: Server, To: Directory, Beyond: Unseen, Waits: Issuer},
	"erro": {Name: "Erro", Gist: "no usable answer", From: Directory, To: Server, Waits: Server},
	"cancelled": {
		Name: "cancel", Gist: "the merchant or the shopper ended it", From: Shop, To: Server, Waits: Server,
	},
	"expired":  {Name: "expired", Gist: "the wait was over", Self: true, From: Server, To: Server, Waits: Server},
	"postauth": {Name: "/postauth", Gist: "the result is fetched", From: Shop, To: Server, Waits: Shop},
	"webhook":  {Name: "webhook", From: Server, To: Shop, Waits: Shop},
	"v1.vereq": {Name: "VEReq", From: Server, To: Directory, Waits: Directory, Doing: "directory"},
	"v1.veres": {Name: "VERes", From: Directory, To: Server, Waits: Server},
	"v1.pareq": {Name: "PAReq", From: Browser, To: Issuer, Waits: Issuer, Doing: atBank},
	"v1.pares": {Name: "PARes", From: Issuer, To: Browser, Waits: Shop},

	// These are seen by the sandbox and its demo shop alone.
	"pay":           {Name: "POST /pay", Gist: "card", From: Browser, To: Shop, Waits: Shop},
	"handed":        {Name: "200", Gist: "url", From: Shop, To: Browser, Waits: Browser, Doing: "threeds.js loads"},
	"hosted":        {Name: "hosted page", From: Browser, To: Server, Waits: Browser, Doing: "page loads"},
	"begin":         {Name: "begin", Gist: "browser data", From: Browser, To: Server, Waits: Server},
	"method.asked":  {Name: "method", Gist: "run it", From: Server, To: Browser, Waits: Browser},
	"method.done":   {Name: "3DS Method", Gist: "over", From: Issuer, To: Browser, Waits: Browser},
	"method.notice": {Name: "notification", Gist: "in time: Y", From: Browser, To: Server, Waits: Server},
	"cres.notice":   {Name: "notification", Gist: "the bank’s page is over", From: Browser, To: Server, Waits: Server},
	"confirm":       {Name: "confirm", Gist: "the bank’s text is read", From: Browser, To: Server, Waits: Server},
	"cancel":        {Name: "cancel", Gist: "the shopper", From: Browser, To: Server, Waits: Server},
	"end":           {Name: "end", From: Server, To: Browser, Waits: Browser},
	"order":         {Name: "GET /order", From: Browser, To: Shop, Waits: Shop},
	"asked":         {Name: "GET /authentications", From: Shop, To: Server, Waits: Server},
	"told":          {Name: "200", Gist: "the result", From: Server, To: Shop, Waits: Shop},
	"complaint":     {Name: "Erro", From: Server, To: Directory, Waits: Directory},
	"bank.erro":     {Name: "Erro", Gist: "instead of a CRes", From: Issuer, To: Browser, Waits: Server},
}

// HopOf returns how a step is drawn, with what its masked message says. A step that is not known is a dot of ours.
func HopOf(step string, masked []byte) Hop {
	h, ok := hops[step]
	if !ok {
		return Hop{Name: step, Self: true, From: Server, To: Server, Waits: Server}
	}
	if len(masked) == 0 {
		return h
	}
	m, err := message.Parse(masked, message.Limits{})
	if err != nil {
		return h
	}
	switch h.Name {
	case "ARes", "RReq":
		h.Gist = Join(", ", m.Text("transStatus"), Prefix("ECI ", m.Text("eci")))
	case "Erro":
		h.Gist = Prefix("error ", m.Text("errorCode"))
	}
	return h
}

//go:embed assets/*.css assets/*.html assets/*.js assets/*.svg
var assets embed.FS

// AddTemplates adds the templates to a set: "lanes" shows a [Drawing], "strip" its sum, and "message" a [Card].
func AddTemplates(t *template.Template) *template.Template {
	return template.Must(t.ParseFS(assets, "assets/lanes.html"))
}

// Tokens returns the style sheet with the colours and sizes of all pages. It stands before all others.
func Tokens() []byte {
	text, _ := assets.ReadFile("assets/tokens.css") // it is in the binary
	return text
}

// Base returns the style sheet of what pages for operators and readers have in common: text, links, fields, tables and
// buttons. It stands after the [Tokens].
func Base() []byte {
	text, _ := assets.ReadFile("assets/base.css") // The file is embedded, so reading it cannot fail.
	return text
}

// Styles returns the style sheet of the templates. It stands after that of the page.
func Styles() []byte {
	text, _ := assets.ReadFile("assets/lanes.css") // it is in the binary
	return text
}

// Script returns the script of the templates, a part of a module. They work without it; with it, the arrow keys go from
// message to message.
func Script() []byte {
	text, _ := assets.ReadFile("assets/lanes.js") // it is in the binary
	return text
}
