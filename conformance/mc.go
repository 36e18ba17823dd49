package conformance

// mc is the construction of the AReq, and what holds for every message.
var mc = []check{
	{"MC-14", func(t *T) { // acquirerBIN: required for payments
		for _, v := range allVersions {
			t.flow(v, "BRW", drop("acquirerBIN")).refused("201", "acquirerBIN")
			t.flow(v, "BRW", set("acquirerBIN", "123456789012")).refused("203", "acquirerBIN")
		}
	}},
}
