package message

// erro210: the Erro. EMV 3DS 2.1.0, tables A.1 and B.12.
//
//	APP BRW 3RI, for each PA and NPA
var erro210 = Rows{
	{Need: "CC CC CC", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "CC CC CC", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "RR RR RR", Name: "errorCode", Kind: OneOf, List: "errorCode", Doc: "problem code"},
	{Need: "RR RR RR", Name: "errorComponent", Kind: OneOf, List: "errorComponent", Doc: "component that found the error"},
	{Need: "RR RR RR", Name: "errorDescription", Max: 2048, Doc: "problem text"},
	{Need: "RR RR RR", Name: "errorDetail", Max: 2048, Doc: "elements or details concerned"},
	{Need: "CC CC CC", Name: "errorMessageType", Kind: OneOf, List: "messageType", Doc: "type of the erroneous message"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "Erro", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "CC -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "CC CC CC", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}
