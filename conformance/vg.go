package conformance

// vg is what holds for every message that is received.
var vg = []check{
	{"VG-05", func(t *T) {
		for _, v := range allVersions {
			for _, bad := range []edit{drop("acsTransID"), set("acsTransID", ""), set("acsTransID", nil)} {
				t.flow(v, "BRW").answers("Y", bad).rejected("201", "acsTransID")
				x := t.flow(v, "BRW").challenged()
				x.refusedRReq(x.rreq("Y", bad), "201", "acsTransID")
			}
		}
	}},
}
