package conformance

import "slices"

// groups are all groups of rows, with their checks, in the order of rows.txt.
var groups = []group{
	{"MC", "message construction: AReq and common rules", mc},
	{"MX", "message construction: other messages", slices.Concat(mx, ores[:1])},
	{"VG", "validation: general rules", vg},
	{"VA", "validation of ARes", va},
	{"VR", "validation of RReq", vr},
	{"VP", "validation of PRes", vp},
	{"VO", "validation of OReq and Erro", vo},
	{"ID", "transaction ids and state", id},
	{"TM", "3DS Method", tm},
	{"BR", "browser flow", br},
	{"AP", "app flow", ap},
	{"RI", "3RI flow", ri},
	{"DA", "decoupled authentication", da},
	{"SP", "secure payment confirmation", sp},
	{"PR", "card ranges: PReq and PRes", pr},
	{"OP", "operation messages", op},
	{"TO", "timeouts", slices.Concat(to, ores[1:])},
	{"RT", "retries and failures", rt},
	{"TL", "TLS and certificates", tl},
	{"HT", "HTTP", ht},
	{"EN", "encoding and sizes", en},
	{"VN", "version negotiation", vn},
	{"CF", "confidentiality and storage", cf},
}
