package login

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/openthreeds/threeds/internal/operate/operator"
)

// relyingParty returns what the console is to authenticators.
func (s *Service) relyingParty() (*webauthn.WebAuthn, error) {
	u, err := url.Parse(s.Settings().URL)
	if err != nil {
		return nil, err
	}
	isRequired := true
	return webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "threeds console", RPOrigins: []string{s.Settings().URL},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: &isRequired,
			UserVerification: protocol.VerificationRequired,
		},
	})
}

// A passkeyUser is a user as the library wants it.
type passkeyUser struct {
	name     string
	handle   []byte
	passkeys []webauthn.Credential
}

func (u *passkeyUser) WebAuthnID() []byte                         { return u.handle }
func (u *passkeyUser) WebAuthnName() string                       { return u.name }
func (u *passkeyUser) WebAuthnDisplayName() string                { return u.name }
func (u *passkeyUser) WebAuthnCredentials() []webauthn.Credential { return u.passkeys }

func newPasskeyUser(u *operator.User) (*passkeyUser, error) {
	known := &passkeyUser{name: u.Name, handle: u.Handle}
	for _, text := range u.Passkeys {
		var c webauthn.Credential
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, err
		}
		known.passkeys = append(known.passkeys, c)
	}
	return known, nil
}

// showLogin shows the page of the login.
func (s *Service) showLogin(w http.ResponseWriter, r *http.Request) {
	next := ownPath(r.URL.Query().Get("next"))
	switch _, err := s.findSession(r); {
	case err == nil:
		http.Redirect(w, r, next, http.StatusSeeOther)
	case !errors.Is(err, operator.ErrNoSession):
		s.showFailure(w, err)
	default:
		s.showLoginAgain(w, r, http.StatusOK, next, "")
	}
}

// showLoginAgain shows the page of the login with what was wrong with the one before; "" is the first.
func (s *Service) showLoginAgain(w http.ResponseWriter, r *http.Request, status int, next, fault string) {
	settings := s.Settings()
	p := page{Title: "Log in", Fault: fault, Next: next}
	if settings.OIDC != nil {
		p.OIDC = "/login/oidc"
		if next != "/" {
			p.OIDC += "?next=" + url.QueryEscape(next)
		}
		p.Issuer = hostOf(settings.OIDC.Issuer)
	}
	if settings.Passkeys {
		party, err := s.relyingParty()
		if err != nil {
			s.showFailure(w, err)
			return
		}
		options, data, err := party.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
		if err != nil {
			s.showFailure(w, err)
			return
		}
		p.Options = encode(options)
		p.CSRF = s.sealCeremony(w, r, passkeyLogin, ceremony{Next: next, WebAuthn: data})
	}
	s.show(w, status, "login", p)
}

// hostOf returns the host of an issuer, for people to read.
func hostOf(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		return issuer
	}
	return u.Host
}

// encode returns JSON.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // options have nothing that cannot be encoded
	}
	return string(text)
}

// finishPasskey logs in a user who has proved to have a passkey.
func (s *Service) finishPasskey(w http.ResponseWriter, r *http.Request) {
	if !s.isOwnOrigin(r) || !s.Settings().Passkeys {
		s.refuseForm(w)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := ownPath(r.PostFormValue("next"))
	c, err := s.openCeremony(r, passkeyLogin, r.PostFormValue("csrf"))
	if errors.Is(err, errForeign) {
		s.recordFailure(r, "unknown", err.Error())
		s.refuseForm(w)
		return
	}
	var user operator.User
	if err == nil {
		user, err = s.checkPasskey(r, &c)
	}
	if err == nil {
		err = s.spendCeremony(r, &c)
	}
	if failure, isOurs := errors.AsType[*storeError](err); isOurs {
		s.showFailure(w, failure)
		return
	}
	if err != nil {
		who := "unknown"
		if user.Name != "" {
			who = user.Who()
		}
		s.recordFailure(r, who, reasonOf(err))
		said := "The passkey was not accepted. Try again, or choose another one."
		if isAboutPage(err) {
			said = "It did not work, for " + err.Error() + ". Try again."
		}
		s.showLoginAgain(w, r, http.StatusUnauthorized, next, said)
		return
	}
	s.startSession(w, r, &user, nil, c.Next)
}

// A storeError is a failure of the store, not of the person who logs in.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// reasonOf returns why a login has failed, for the audit trail.
func reasonOf(err error) string {
	if p, ok := errors.AsType[*protocol.Error](err); ok {
		return p.Details
	}
	return err.Error()
}

// errCloned says that the signature counter of a passkey went back, as it does when there is a copy of it.
var errCloned = errors.New("the signature counter went back: there may be a copy of the passkey")

// checkPasskey returns the user whose passkey has answered the challenge of a ceremony. With an error it still returns
// the user if that is certain.
func (s *Service) checkPasskey(r *http.Request, c *ceremony) (operator.User, error) {
	answer, err := protocol.ParseCredentialRequestResponseBytes([]byte(r.PostFormValue("credential")))
	if err != nil || c.WebAuthn == nil {
		return operator.User{}, errors.New("the browser has sent no answer of a passkey")
	}
	party, err := s.relyingParty()
	if err != nil {
		return operator.User{}, err
	}
	var user operator.User
	var failure error
	used, err := party.ValidateDiscoverableLogin(func(_, handle []byte) (webauthn.User, error) {
		user, failure = s.Operators.FindHandle(r.Context(), handle)
		if failure != nil {
			return nil, failure
		}
		return newPasskeyUser(&user)
	}, *c.WebAuthn, answer)
	if failure != nil && !errors.Is(failure, operator.ErrNoUser) {
		return user, &storeError{failure}
	}
	if err != nil {
		return user, err
	}
	if used.Authenticator.CloneWarning {
		return user, errCloned
	}
	_, user, err = s.Operators.ChangeUser(r.Context(),
		user.Name, func(u *operator.User) error { return keepPasskey(u, used) })
	if errors.Is(err, operator.ErrNoUser) {
		return operator.User{}, err
	}
	if err != nil {
		return user, &storeError{err}
	}
	return user, nil
}

// keepPasskey replaces a passkey by the same one with its new counter. If the user no longer has the passkey, the login
// is refused.
func keepPasskey(u *operator.User, used *webauthn.Credential) error {
	kept, isThere := make([]json.RawMessage, len(u.Passkeys)), false
	for i, text := range u.Passkeys {
		var c webauthn.Credential
		if err := json.Unmarshal(text, &c); err != nil {
			return err
		}
		if kept[i] = text; string(c.ID) == string(used.ID) {
			kept[i], isThere = json.RawMessage(encode(used)), true
		}
	}
	if !isThere {
		return operator.ErrNoUser
	}
	u.Passkeys = kept
	return nil
}

// showInvitation shows the page on which an invited person registers a passkey.
func (s *Service) showInvitation(w http.ResponseWriter, r *http.Request) {
	s.showInvitationAgain(w, r, http.StatusOK, "")
}

func (s *Service) showInvitationAgain(w http.ResponseWriter, r *http.Request, status int, fault string) {
	invitation, user, err := s.findInvitation(r)
	if err != nil {
		s.refuseInvitation(w, err)
		return
	}
	party, err := s.relyingParty()
	if err != nil {
		s.showFailure(w, err)
		return
	}
	options, data, err := party.BeginRegistration(user,
		webauthn.WithExclusions(webauthn.Credentials(user.passkeys).CredentialDescriptors()))
	if err != nil {
		s.showFailure(w, err)
		return
	}
	s.show(w, status, "invitation", page{
		Title: "Register a passkey", Fault: fault, Name: invitation.Name, Role: invitation.Role,
		Merchant: invitation.Merchant, Path: r.URL.Path, Options: encode(options),
		CSRF: s.sealCeremony(w, r, passkeyRegistration, ceremony{WebAuthn: data}),
	})
}

// findInvitation returns the invitation that a request names, and its user. If there is no such user yet, the user gets
// a new handle.
func (s *Service) findInvitation(r *http.Request) (operator.Invitation, *passkeyUser, error) {
	if !s.Settings().Passkeys {
		return operator.Invitation{}, nil, operator.ErrNoInvitation
	}
	invitation, err := s.Operators.FindInvitation(r.Context(), r.PathValue("secret"))
	if err != nil {
		return operator.Invitation{}, nil, err
	}
	user, err := s.Operators.FindUser(r.Context(), invitation.Name)
	if errors.Is(err, operator.ErrNoUser) {
		return invitation, &passkeyUser{name: invitation.Name, handle: hashOf(operator.NewSecret())}, nil
	}
	if err != nil {
		return operator.Invitation{}, nil, err
	}
	known, err := newPasskeyUser(&user)
	return invitation, known, err
}

// refuseInvitation says that an invitation is not good any more.
func (s *Service) refuseInvitation(w http.ResponseWriter, err error) {
	if !errors.Is(err, operator.ErrNoInvitation) {
		s.showFailure(w, err)
		return
	}
	s.showMessage(w, http.StatusNotFound, "This link is not good any more",
		"An invitation works once, for one hour. Ask an administrator for another one.")
}

// finishInvitation registers a passkey, and logs its owner in.
func (s *Service) finishInvitation(w http.ResponseWriter, r *http.Request) {
	if !s.isOwnOrigin(r) {
		s.refuseForm(w)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	_, user, err := s.findInvitation(r)
	if err != nil {
		s.refuseInvitation(w, err)
		return
	}
	c, err := s.openCeremony(r, passkeyRegistration, r.PostFormValue("csrf"))
	if errors.Is(err, errForeign) {
		s.recordFailure(r, "passkey:"+user.name, err.Error())
		s.refuseForm(w)
		return
	}
	var made *webauthn.Credential
	if err == nil {
		made, err = s.checkNewPasskey(r, user, &c)
	}
	if err != nil {
		s.recordFailure(r, "passkey:"+user.name, reasonOf(err))
		said := "The passkey was not accepted. It has to check who you are, by a PIN or a finger, and to be kept on the device."
		if isAboutPage(err) {
			said = "It did not work, for " + err.Error() + ". Try again."
		}
		s.showInvitationAgain(w, r, http.StatusBadRequest, said)
		return
	}
	registered, err := s.Operators.UseInvitation(r.Context(), r.PathValue("secret"), c.WebAuthn.UserID,
		json.RawMessage(encode(made)))
	switch {
	case errors.Is(err, operator.ErrUserExists):
		s.showMessage(w, http.StatusConflict, "The user has changed",
			"This user was changed after the invitation. Ask an administrator for another one.")
		return
	case err != nil:
		s.refuseInvitation(w, err)
		return
	}
	s.audit(r, &operator.Actor{Who: registered.Who(), Role: registered.Role, Group: registered.Group},
		"operator.register",
		map[string]any{"role": registered.Role, "merchant": registered.Merchant, "group": registered.Group})
	s.startSession(w, r, &registered, nil, "/")
}

// checkNewPasskey returns the passkey that a browser has made for a ceremony.
func (s *Service) checkNewPasskey(r *http.Request, user *passkeyUser, c *ceremony) (*webauthn.Credential, error) {
	answer, err := protocol.ParseCredentialCreationResponseBytes([]byte(r.PostFormValue("credential")))
	if err != nil || c.WebAuthn == nil {
		return nil, errors.New("the browser has sent no passkey")
	}
	party, err := s.relyingParty()
	if err != nil {
		return nil, err
	}
	return party.CreateCredential(&passkeyUser{name: user.name, handle: c.WebAuthn.UserID}, *c.WebAuthn, answer)
}
