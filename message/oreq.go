package message

// oreq231: the OReq, by which a directory server tells what its operators have
// to say. EMV 3DS 2.3.1, tables A.1 and B.10.
//
//	APP BRW 3RI, for each PA and NPA
var oreq231 = Rows{
	{Need: "RR RR RR", Name: "dsReferenceNumber", Max: 32, Doc: "DS reference from EMVCo"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "OReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "opCategory", Kind: OneOf, List: "opCategory", Doc: "what the message is about"},
	{Need: "RR RR RR", Name: "opDescription", Max: 20000, Doc: "text for operators"},
	{Need: "RR RR RR", Name: "opExpDate", Kind: Date, Doc: "day from which the message is void"},
	{Need: "OO OO OO", Name: "opPriorTransRef", Kind: Object, Type: "opPriorTransRef", Doc: "transaction the message refers to"},
	{Need: "RR RR RR", Name: "opSeq", Kind: Object, Type: "opSeq", Doc: "place in a sequence of messages"},
	{Need: "RR RR RR", Name: "opSeverity", Kind: OneOf, List: "opSeverity", Doc: "how serious it is"},
}

// ores231: the ORes, as a 3DS server sends it. EMV 3DS 2.3.1, tables A.1 and
// B.11.
//
//	APP BRW 3RI, for each PA and NPA
var ores231 = Rows{
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "ORes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "opStatus", Kind: OneOf, List: "opStatus", Doc: "how the sequence was taken"},
	{Need: "RR RR RR", Name: "threeDSServerRefNumber", Max: 32, Doc: "3DS server reference from EMVCo"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// opSeqRows231: the object opSeq. EMV 3DS 2.3.1, annex A.
var opSeqRows231 = Rows{
	{Need: "RR RR RR", Name: "seqId", Kind: UUID, Doc: "the sequence"},
	{Need: "RR RR RR", Name: "seqNum", Kind: Digits, Min: 2, Max: 2, Range: &Span{1, 99}, Doc: "place of this message in it"},
	{Need: "RR RR RR", Name: "seqTotal", Kind: Digits, Min: 2, Max: 2, Range: &Span{1, 99}, Doc: "how many messages it has"},
}

// opPriorTransRefRows231: the object opPriorTransRef. EMV 3DS 2.3.1, annex A.
var opPriorTransRefRows231 = Rows{
	{Need: "RR RR RR", Name: "transIdType", Kind: OneOf, List: "transIdType", Doc: "who set the ID"},
	{Need: "RR RR RR", Name: "transId", Kind: UUID, Doc: "transaction ID"},
}
