package conformance

// da is decoupled authentication.
var da = byRow(daFaults, inRReq)

var daFaults = []fault{
	{row: "DA-05", name: "time over", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D", rreq: "U", set: bend{"transStatusReason": "24", "challengeCancel": "03", "interactionCounter": nil}},
	{row: "DA-05", name: "tried, not performed", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D", rreq: "U", set: bend{"transStatusReason": "26", "challengeCancel": "03", "interactionCounter": nil}},
	{row: "DA-06", name: "after F", in: "2.3.1", ask: decoupledAs("F"), rreq: "D", set: bend{"transStatusReason": "29"}},
	{row: "DA-06", name: "after B", in: "2.3.1", ask: decoupledAs("B"), rreq: "D", set: bend{"transStatusReason": "30"}},
}
