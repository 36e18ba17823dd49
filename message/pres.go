package message

// preq210: the PReq. EMV 3DS 2.1.0, tables A.1 and B.6.
//
//	APP BRW 3RI, for each PA and NPA
var preq210 = Rows{
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "PReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "OO OO OO", Name: "serialNum", Max: 20, Doc: "ask changes since this state"},
	{Need: "CC CC CC", Name: "threeDSServerOperatorID", Max: 32, Doc: "3DS Server ID assigned by the DS"},
	{Need: "RR RR RR", Name: "threeDSServerRefNumber", Max: 32, Doc: "3DS Server reference from EMVCo"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// preq231: the PReq. EMV 3DS 2.3.1, tables A.1 and B.6.
//
//	APP BRW 3RI, for each PA and NPA
var preq231 = preq210.With(Rows{
	{Need: "CC CC CC", Name: "cardRangeDataDownloadInd", Kind: OneOf, List: "cardRangeDataDownloadInd", Doc: "server can download a range file"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
})

// pres210: the PRes. EMV 3DS 2.1.0, tables A.1 and B.7.
//
//	APP BRW 3RI, for each PA and NPA
var pres210 = Rows{
	{Need: "OO OO OO", Name: "cardRangeData", Kind: Object, Type: "cardRange", Array: true, Doc: "card ranges"},
	{Need: "RR RR RR", Name: "dsEndProtocolVersion", Kind: Dotted, Doc: "newest active version of the DS"},
	{Need: "RR RR RR", Name: "dsStartProtocolVersion", Kind: Dotted, Doc: "oldest active version of the DS"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "PRes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "OO OO OO", Name: "serialNum", Max: 20, Solid: true, Doc: "state of the card range data"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// pres231: the PRes. EMV 3DS 2.3.1, tables A.1 and B.7.
//
//	APP BRW 3RI, for each PA and NPA
var pres231 = pres210.Without("dsEndProtocolVersion", "dsStartProtocolVersion").With(Rows{
	{Need: "CC CC CC", Name: "cardRangeData", Kind: Object, Type: "cardRange", Array: true, Max: 200000, When: "absent(cardRangeDataFileURL) and serialNum != preq.serialNum", Forbid: "present(cardRangeDataFileURL)", Yields: true, Doc: "card ranges"},
	{Need: "CC CC CC", Name: "cardRangeDataFileURL", Kind: URL, Max: 2048, Forbid: `preq.cardRangeDataDownloadInd != "Y"`, Doc: "card range file to download"},
	{Need: "RR RR RR", Name: "dsProtocolVersions", Kind: Dotted, Array: true, Max: 10, Doc: "active versions of the DS"},
	{Need: "OO OO OO", Name: "dsUrlList", Kind: Object, Type: "dsUrl", Array: true, Max: 99, Doc: "DS URLs by country"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "readOrder", Kind: OneOf, List: "readOrder", Doc: "order for processing ranges"},
	{Need: "CC CC CC", Name: "serialNum", Max: 20, Solid: true, Forbid: "present(cardRangeDataFileURL)", Yields: true, Doc: "state of the card range data"},
})
