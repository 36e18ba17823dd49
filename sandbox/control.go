package sandbox

import (
	"mime"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
	"github.com/openthreeds/threeds/sandbox/ranges"
)

// controlText is what the control port is for, as somebody sees it who opens it.
const controlText = `What the sandbox's directory servers and issuers saw, and how to steer them.

GET  /transactions           the ids of the latest hundred, newest first
GET  /exchanges?transID=ID   every message of one, as it stood on the wire; in 1.0.2 ID is the Message id
GET  /cards                  the card table
GET  /merchants              the merchants with whom something goes wrong
GET  /v1                     the table of 3-D Secure 1.0.2
GET  /app?transID=ID         a page that decides a challenge inside an app
POST /spc                    {"acctNumber", "credentialId", "publicKey"}: a credential for Secure Payment Confirmation
POST /app                    transID and result=pass, fail, cancel or timeout: the same by program,
                             also for a page of the issuer's that is open in a browser
POST /oob                    acsTransID: the cardholder confirms in the app of the bank
                             (an app's SDK: the answer has threeDSRequestorAppURL, the way back)

ID is any of the transaction's ids.

Below /_sandbox/ of the one port there is no page for GET /app, and everything but GET needs the header
APIKey and a body of JSON: POST /app takes {"transID": "ID", "result": "pass"} there.

Card ranges:

` + ranges.ControlText

// controlRoutes are for looking and steering: controlText. Nothing of the
// protocol is here. hasForms says that a page of it may post a form.
func controlRoutes(s *Sandbox, hasForms bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", peer.ServeText(controlText))
	mux.HandleFunc("GET /exchanges", s.showExchanges)
	mux.HandleFunc("GET /transactions", func(w http.ResponseWriter, _ *http.Request) {
		peer.WriteJSON(w, http.StatusOK, s.journal.latest(100))
	})
	mux.HandleFunc("GET /cards", peer.ServeText(CardTable()))
	mux.HandleFunc("GET /merchants", peer.ServeText(MerchantTable()))
	mux.HandleFunc("GET /v1", peer.ServeText(V1Table()))
	if hasForms {
		mux.HandleFunc("GET /app", s.showApp)
	}
	mux.HandleFunc("POST /app", s.decideApp)
	mux.HandleFunc("POST /spc", s.addCredential)
	mux.HandleFunc("POST /oob", s.confirmOutside)
	all := http.NewServeMux()
	ranges.Routes(all, RangeFaults(), s.rangeSets, s.Ranges)
	all.Handle("/", http.MaxBytesHandler(mux, maxBody))
	return all
}

func (s *Sandbox) showExchanges(w http.ResponseWriter, r *http.Request) {
	all := s.Received(r.FormValue("transID"))
	if all == nil {
		peer.WriteError(w, http.StatusNotFound, "no transaction with this transID")
		return
	}
	peer.WriteJSON(w, http.StatusOK, all)
}

func (s *Sandbox) showApp(w http.ResponseWriter, r *http.Request) {
	t := s.journal.transaction(r.FormValue("transID"))
	if t == nil || !t.asks() {
		s.showFailure(w, http.StatusNotFound, "No challenge in an app waits here.", "transID in the address")
		return
	}
	t.mu.Lock()
	v := t.page()
	t.mu.Unlock()
	v.Name, v.Action = "app", "/app?transID="+t.ids.acs
	s.show(w, http.StatusOK, v)
}

// readDecision reads the transaction and the result that somebody decided: a form, or JSON.
func readDecision(r *http.Request) (transID, result string, err error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return r.FormValue("transID"), r.FormValue("result"), nil
	}
	var in struct {
		TransID string `json:"transID"`
		Result  string `json:"result"`
	}
	err = peer.ReadJSON(r.Body, &in)
	return in.TransID, in.Result, err
}

func (s *Sandbox) decideApp(w http.ResponseWriter, r *http.Request) {
	transID, result, err := readDecision(r)
	if err != nil {
		peer.WriteError(w, http.StatusBadRequest, "want {\"transID\": …, \"result\": …}: "+err.Error())
		return
	}
	verdicts := map[string]verdict{"pass": passed, "fail": failed, "cancel": cancelled, "timeout": notFinished}
	v, known := verdicts[result]
	if !known {
		peer.WriteError(w, http.StatusBadRequest, "result: want pass, fail, cancel or timeout")
		return
	}
	t := s.journal.transaction(transID)
	if t == nil || !t.decide(v) {
		peer.WriteError(w, http.StatusNotFound, "no challenge waits for somebody under this transID")
		return
	}
	peer.WriteJSON(w, http.StatusOK, map[string]string{"transStatus": v.status})
}

// confirmOutside lets a challenge pass that waits for the app of the bank.
func (s *Sandbox) confirmOutside(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ACSTransID string `json:"acsTransID"`
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		if err := peer.ReadJSON(r.Body, &in); err != nil {
			peer.WriteError(w, http.StatusBadRequest, "want {\"acsTransID\": …}: "+err.Error())
			return
		}
	} else {
		in.ACSTransID = r.FormValue("acsTransID")
	}
	t := s.journal.transaction(in.ACSTransID)
	if t == nil || !t.isOutside() || !t.decide(passed) {
		peer.WriteError(w, http.StatusNotFound, "no challenge waits for the app of the bank under this acsTransID")
		return
	}
	out := map[string]string{"transStatus": passed.status}
	if back := t.wayBack(); back != "" {
		out["threeDSRequestorAppURL"] = back
	}
	peer.WriteJSON(w, http.StatusOK, out)
}

// guard refuses requests under names of other machines, if only this machine can reach the listeners. Otherwise a page
// whose name was made to resolve to this machine would have the same origin, and could read and control everything.
func (s *Sandbox) guard(next http.Handler) http.Handler {
	if !IsLocalHost(s.Listen) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsPrivateHost(r.Host) {
			http.Error(w, "The sandbox answers only to names of this machine, such as 127.0.0.1 and localhost.",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IsLocalHost reports whether a host, with a port or without, names the machine itself.
func IsLocalHost(host string) bool { return peer.IsLocalHost(host) }

// IsPrivateHost reports whether a host is local or has a name that cannot be owned on the internet: one without a dot,
// as machines next to this one are called, or below "internal", as containers call this one.
func IsPrivateHost(host string) bool {
	name := peer.NameOf(host)
	return IsLocalHost(host) || name != "" && !strings.ContainsAny(name, ".:") || strings.HasSuffix(name, ".internal")
}
