package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// An object is a JSON object in the order in which its members were put.
type object struct {
	text bytes.Buffer
}

// put adds a member. "" and nil values are left out, so that optional members
// need no if.
func (o *object) put(name string, value any) *object {
	switch v := value.(type) {
	case nil:
		return o
	case string:
		if v == "" {
			return o
		}
	case json.RawMessage:
		if len(v) == 0 {
			return o
		}
	case *object:
		if v == nil {
			return o
		}
		value = json.RawMessage(v.bytes())
	}
	return o.member(name, value)
}

// putUnknownNull adds a member that no receiver knows, with the value null.
func (o *object) putUnknownNull() { o.member("sandboxNothing", nil) }

func (o *object) member(name string, value any) *object {
	if o.text.Len() > 0 {
		o.text.WriteByte(',')
	}
	fmt.Fprintf(&o.text, "%q:%s", name, peer.Encode(value))
	return o
}

func (o *object) bytes() []byte {
	return append(append([]byte{'{'}, o.text.Bytes()...), '}')
}

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
	if e.version == "" {
		e.version = v231
	}
	if e.description == "" {
		e.description = descriptions[e.code]
	}
	if e.description == "" {
		e.description = "An error"
	}
	o := new(object).
		put("threeDSServerTransID", e.ids.server).
		put("acsTransID", e.ids.acs).
		put("dsTransID", e.ids.ds).
		put("errorCode", e.code).
		put("errorComponent", e.component).
		put("errorDescription", e.description).
		put("errorDetail", truncate(e.detail, 2048)).
		put("errorMessageType", e.about).
		put("messageType", "Erro").
		put("messageVersion", e.version).
		put("sdkTransID", e.ids.sdk)
	return o.bytes()
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

// stamp is a time as control and log show it.
func (s *Sandbox) stamp() time.Time { return s.Now().UTC() }

// alter gives a test its chance to break a message.
func (s *Sandbox) alter(kind string, body []byte) []byte {
	if s.Alter == nil {
		return body
	}
	return s.Alter(kind, body)
}
