package sandbox

import (
	"encoding/base64"
	"fmt"
	"slices"
)

// rreq writes the result as the transaction's version has it.
func (t *transaction) rreq(v verdict) []byte {
	o := new(object).
		put("messageType", "RReq").
		put("messageVersion", t.version).
		put("threeDSServerTransID", t.ids.server).
		put("acsTransID", t.ids.acs).
		put("dsTransID", t.ids.ds).
		put("messageCategory", t.areq.text("messageCategory")).
		put("transStatus", v.status).
		put("transStatusReason", v.reason).
		put("challengeCancel", v.cancel).
		put("eci", t.dir.scheme.eci(v.status, t.payment))
	if v.status == "Y" {
		o.put("authenticationValue", newValue())
	}
	t.putMethod(o)
	if t.ares != "D" {
		o.put("interactionCounter", fmt.Sprintf("%02d", t.interactions(v)))
	}
	if t.channel == app {
		if t.version != v210 {
			o.put("sdkTransID", t.ids.sdk)
		}
		if t.ares != "D" {
			o.put("acsRenderingType", t.render)
		}
	}
	if !t.box.Nice {
		o.put("sandboxResult", strange()).nothing()
	}
	return o.bytes()
}

// putMethod says how the cardholder was or will be authenticated: a type
// before 2.3.1, a list of methods since.
func (t *transaction) putMethod(o *object) {
	kind, method := "02", "02" // dynamic: a code by text message
	if t.ares == "D" {
		kind, method = "04", "12"
	}
	if t.version == v231 {
		o.put("authenticationMethod", []string{method})
	} else {
		o.put("authenticationType", kind)
	}
}

// interactions is how often the cardholder was asked and answered.
func (t *transaction) interactions(v verdict) int {
	if t.channel == browser && t.deed.how == "asks" || v.reason == "14" {
		return min(t.tries, 99)
	}
	return 1
}

// writeCRes is the message that ends a browser's challenge, or what comes in its place.
func (t *transaction) writeCRes(v verdict) []byte {
	if t.fault.is("CRes", "garbage") {
		return []byte("<html>Thank you</html>")
	}
	o := new(object).
		put("messageType", "CRes").
		put("messageVersion", t.version).
		put("threeDSServerTransID", t.ids.server).
		put("acsTransID", t.ids.acs).
		put("transStatus", t.told(v.status))
	if !t.box.Nice {
		o.nothing()
	}
	if t.fault.is("CRes", "padded") {
		o.put("sandboxRemark", "?????>>>>>") // which have / and + in base64
	}
	body := t.box.alter("CRes", o.bytes())
	for t.padded() && len(body)%3 == 0 {
		body = append(slices.Clone(body), '\n')
	}
	return body
}

// told is the transStatus that the browser has of a result.
func (t *transaction) told(status string) string {
	if !t.fault.is("CRes", "other") {
		return status
	}
	if status == "Y" {
		return "N"
	}
	return "Y"
}

// padded says whether this issuer pads its base64url, as it should not.
func (t *transaction) padded() bool {
	return t.deed.padded && !t.box.Nice || t.fault.is("CRes", "padded")
}

// encodeCRes is how the message travels.
func (t *transaction) encodeCRes() string {
	switch {
	case t.fault.is("CRes", "padded"):
		return base64.StdEncoding.EncodeToString(t.cres)
	case t.padded():
		return base64.URLEncoding.EncodeToString(t.cres)
	}
	return encodeURL(t.cres)
}
