package conformance

// ap is the app flow.
var ap = byRow(apFaults, inRReq)

var apFaults = []fault{
	{row: "AP-12", name: "the SDK's id", in: "2.2.0 2.3.1", on: "APP"},
	{row: "AP-13", name: "CReq", on: "APP", set: bend{"messageType": "CReq"}, want: "101"},
	{row: "AP-13", name: "CRes", on: "APP", set: bend{"messageType": "CRes"}, want: "101"},
}
