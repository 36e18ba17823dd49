package sandbox

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// An object is a message, or a part of one, that is being written.
type object = peer.Object

// newValue is an authentication value: 20 bytes, 28 characters.
func newValue() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// An erro is an error message of the directory server (component D) or the
// issuer (A).
type erro struct {
	version, component, code, description, detail, about string
	ids                                                  ids
}

// ids are the four names of a transaction.
type ids struct{ server, ds, acs, sdk string }

func (e erro) bytes() []byte {
	e.version = cmp.Or(e.version, v231)
	e.description = cmp.Or(e.description, descriptions[e.code], "An error")
	o := new(object).
		Put("threeDSServerTransID", e.ids.server).
		Put("acsTransID", e.ids.acs).
		Put("dsTransID", e.ids.ds).
		Put("errorCode", e.code).
		Put("errorComponent", e.component).
		Put("errorDescription", e.description).
		Put("errorDetail", truncate(e.detail, 2048)).
		Put("errorMessageType", e.about).
		Put("messageType", "Erro").
		Put("messageVersion", e.version).
		Put("sdkTransID", e.ids.sdk)
	return o.Bytes()
}

// descriptions are what the sandbox says with each code it uses.
var descriptions = map[string]string{
	"101": "Message not recognised or not meant for this component",
	"102": "Message version not supported for this card",
	"103": "Too many messages in too short a time",
	"201": "A required element is missing",
	"202": "A critical message extension is not recognised",
	"203": "Format or value of an element is not valid",
	"204": "An element occurs twice",
	"207": "A value is reserved",
	"301": "Transaction id not recognised",
	"302": "Data could not be decrypted",
	"303": "Access denied",
	"304": "An ISO code is not valid",
	"305": "Transaction data not valid",
	"307": "Serial number not valid",
	"312": "This message was received before",
	"314": "A transaction has one CReq",
	"315": "CReq after the result was sent",
	"403": "Transient system failure",
	"404": "Permanent system failure",
	"405": "No connection to the next system",
}

func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// alter gives a test its chance to break a message.
func (s *Sandbox) alter(kind string, body []byte) []byte {
	if s.Alter == nil {
		return body
	}
	return s.Alter(kind, body)
}
