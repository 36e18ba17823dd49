package login

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/openthreeds/threeds/internal/operate/operator"
)

// A person confirms a dangerous act with one of their passkeys, or with a fresh login at the issuer. The form of the
// act waits meanwhile, sealed, so what is confirmed is what is done: the page that asks has nothing of it in clear.

// confirmTime is for how long a confirmation is good, from the moment at which the person is asked, or comes back from
// the issuer.
const confirmTime = 2 * time.Minute

// A waitingForm is a form whose act has to be confirmed.
type waitingForm struct {
	operator.Intent
	By       string     `json:"by"`       // passkey or login
	Who      string     `json:"who"`      // whom the audit trail names as the actor
	Identity string     `json:"identity"` // of the actor
	Path     string     `json:"path"`     // where the form goes
	Form     url.Values `json:"form"`
	Summary  string     `json:"summary"`
}

// isOf reports whether an actor has sent the form.
func (f *waitingForm) isOf(by *operator.Actor) bool {
	return f.Who == by.Who && f.Identity == by.Identity
}

// The ways by which an act is confirmed.
const (
	byPasskey = "passkey"
	byLogin   = "login"
)

// The fields of a form that confirms another one: the sealed ceremony, and the answer of the passkey.
const (
	confirmField    = "confirm"
	credentialField = "credential"
)

// AskConfirmation shows a page on which the person who has sent the form r confirms what it is about. The page sends
// the same form again. [Service.Protect] checks the confirmation, and passes the form on with an actor that has
// Confirmed.
func (s *Service) AskConfirmation(w http.ResponseWriter, r *http.Request, summary string, what operator.Intent) {
	session, ok := operator.SessionOf(r.Context())
	if !ok || r.ParseForm() != nil {
		s.refuseForm(w)
		return
	}
	form := waitingForm{
		Intent: what, Who: session.Actor.Who, Identity: session.Actor.Identity, Path: r.URL.RequestURI(),
		Form: cloneForm(r.PostForm), Summary: summary,
	}
	if strings.HasPrefix(form.Who, operator.OIDCPrefix) {
		s.askForLogin(w, r, session, &form)
		return
	}
	s.askForPasskey(w, r, session, &form)
}

// cloneForm returns the fields of a form without those that are about the page that it comes from.
func cloneForm(sent url.Values) url.Values {
	form := url.Values{}
	for name, values := range sent {
		if name != "csrf" && name != confirmField && name != credentialField {
			form[name] = values
		}
	}
	return form
}

// newConfirmPage returns the page that asks for the confirmation of a form.
func newConfirmPage(session *operator.Session, form *waitingForm) page {
	return page{
		Title: form.Summary + "?", Text: form.Object, Path: form.Path, CSRF: session.FormToken(),
	}
}

// askForPasskey asks for one of the passkeys of the person.
func (s *Service) askForPasskey(w http.ResponseWriter, r *http.Request, session *operator.Session, form *waitingForm) {
	_, name, _ := strings.Cut(session.Actor.Who, ":")
	user, err := s.Operators.FindUser(r.Context(), name)
	if err != nil {
		s.showFailure(w, err)
		return
	}
	known, err := newPasskeyUser(&user)
	if err != nil {
		s.showFailure(w, err)
		return
	}
	party, err := s.relyingParty()
	if err != nil {
		s.showFailure(w, err)
		return
	}
	options, data, err := party.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired),
		webauthn.WithAllowedCredentials(webauthn.Credentials(known.passkeys).CredentialDescriptors()))
	if err != nil {
		s.showFailure(w, err)
		return
	}
	form.By = byPasskey
	p := newConfirmPage(session, form)
	p.Options = encode(options)
	p.Confirm = s.sealCeremony(w, r, confirmation, ceremony{WebAuthn: data, Form: form})
	s.show(w, http.StatusOK, "confirm", p)
}

// askForLogin asks for a fresh login at the issuer. The form waits in the store until the person is back, sealed
// by the session.
func (s *Service) askForLogin(w http.ResponseWriter, r *http.Request, session *operator.Session, form *waitingForm) {
	form.By = byLogin
	secret := operator.NewSecret()
	kept := session.Seal([]byte(encode(form)))
	if err := s.Operators.Keep(r.Context(), secret, kept, s.Operators.Now().Add(ceremonyTime)); err != nil {
		s.showFailure(w, err)
		return
	}
	p := newConfirmPage(session, form)
	p.OIDC = "/login/oidc?" + url.Values{confirmField: {secret}}.Encode()
	if settings := s.Settings().OIDC; settings != nil {
		p.Issuer = hostOf(settings.Issuer)
	}
	s.show(w, http.StatusOK, "confirm", p)
}

// issuerClocks is how far the clock of an issuer may be behind that of this machine.
const issuerClocks = 30 * time.Second

// errStaleLogin says that the issuer did not let the person log in again.
var errStaleLogin = errors.New("the issuer has not said that the login is a new one (auth_time)")

// checkFresh refuses an ID token of a login that was before the ceremony began.
func (c *ceremony) checkFresh(claims map[string]json.RawMessage) error {
	var at float64
	if c.Waiting == "" {
		return nil
	}
	if json.Unmarshal(claims["auth_time"], &at) != nil ||
		time.Unix(int64(at), 0).Before(c.Ends.Add(-ceremonyTime-issuerClocks)) {
		return errStaleLogin
	}
	return nil
}

// showLoggedInAgain shows the button that does what a person has logged in again for.
func (s *Service) showLoggedInAgain(w http.ResponseWriter, r *http.Request, c *ceremony, who *subject) {
	session, err := s.findSession(r)
	if err == nil && session.Actor.Who != operator.OIDCPrefix+who.id {
		err = errors.New("another person has logged in")
	}
	if err == nil && !s.hasRights(&session.Actor, who.groups) {
		err = errors.New("the issuer gives the person other rights by now")
	}
	var form waitingForm
	if err == nil {
		form, err = s.takeForm(r, c.Waiting, &session)
	}
	if err != nil || !form.isOf(&session.Actor) {
		s.refuseConfirmation(w, r, operator.OIDCPrefix+who.id, err)
		return
	}
	p := newConfirmPage(&session, &form)
	p.Confirm = s.sealCeremony(w, r, confirmation, ceremony{Form: &form})
	s.show(w, http.StatusOK, "confirm", p)
}

// hasRights reports whether the groups that the issuer has named now still give an actor the same rights.
func (s *Service) hasRights(by *operator.Actor, groups []string) bool {
	settings := s.Settings().OIDC
	if settings == nil {
		return false
	}
	of, err := settings.rights(groups)
	return err == nil && of == rights{by.Role, by.Merchant, by.Group}
}

// takeForm takes the form that waits under a secret. Only the session that has sent it can open it.
func (s *Service) takeForm(r *http.Request, secret string, session *operator.Session) (form waitingForm, err error) {
	var kept, plain []byte
	if err = s.Operators.Take(r.Context(), secret, &kept); err == nil {
		plain, err = session.Open(kept)
	}
	if err == nil {
		err = json.Unmarshal(plain, &form)
	}
	return form, err
}

// refuseConfirmation says that an act was not confirmed, and so not done.
func (s *Service) refuseConfirmation(w http.ResponseWriter, r *http.Request, who string, err error) {
	if failure, isOurs := errors.AsType[*storeError](err); isOurs {
		s.showFailure(w, failure)
		return
	}
	why := "it was of another person"
	if err != nil {
		why = reasonOf(err)
	}
	s.recordFailure(r, who, "confirmation: "+why)
	text := "The confirmation was not accepted. Go back to the page of the console, and send the form again."
	if err != nil && (isAboutPage(err) || errors.Is(err, errStaleLogin)) {
		text = "It did not work, for " + err.Error() + ". Go back to the page of the console, and send the form again."
	}
	s.showMessage(w, http.StatusForbidden, "Nothing was changed", text)
}

// takeConfirmation checks the confirmation that a form brings. It puts the form that was confirmed in the place of this
// one, and the confirmation into the session. Otherwise it answers, and returns false.
func (s *Service) takeConfirmation(w http.ResponseWriter, r *http.Request, session *operator.Session) bool {
	c, err := s.openCeremony(r, confirmation, r.PostForm.Get(confirmField))
	switch {
	case err != nil:
	case c.Form == nil || !c.Form.isOf(&session.Actor) || c.Form.Path != r.URL.RequestURI():
		err = errForeign
	case c.Form.By == byPasskey:
		var user operator.User
		if user, err = s.checkPasskey(r, &c); err == nil && user.Who() != session.Actor.Who {
			err = errors.New("it was the passkey of another person")
		}
	}
	if err == nil {
		err = s.spendCeremony(r, &c)
	}
	if err != nil {
		s.refuseConfirmation(w, r, session.Actor.Who, err)
		return false
	}
	session.Actor.Confirmed = operator.Confirmation{Intent: c.Form.Intent, By: c.Form.By}
	form := cloneForm(c.Form.Form)
	form.Set("csrf", session.FormToken())
	r.PostForm, r.Form = form, nil
	return true
}
