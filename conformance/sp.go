package conformance

// sp is secure payment confirmation.
var sp = []check{}

// spcPlan is a lab whose cards have an issuer that supports SPC.
var spcPlan = plan{directories: []directory{{scheme: "visa", ranges: []cardRange{{prefix: "400000", from: v231, to: v231, info: []string{"01", "07"}}}}}}

// offerSPC are the edits of a request that offers SPC.
var offerSPC = []edit{set("threeDSRequestorSpcSupport", "Y"), set("payeeOrigin", "https://shop.example")}

// secondSPC are the edits of the second request of SPC: the assertion, and what
// it refers to.
func secondSPC(first *flow) []edit {
	return []edit{
		set("threeDSRequestorAuthenticationInfo", []object{{
			"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": "202611201201", "threeDSReqAuthData": object{"id": "Y3JlZGVudGlhbA", "type": "public-key"},
		}}),
		set("threeDSRequestorPriorAuthenticationInfo", []object{{
			"threeDSReqPriorRef": first.ares["acsTransID"], "threeDSReqPriorAuthMethod": "05", "threeDSReqPriorAuthTimestamp": "202611201200",
		}}),
	}
}
