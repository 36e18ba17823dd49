package message

// messageRows are the rows of all messages.
var messageRows = [typeCount]versions{
	AReq: {areq210, areq220, areq231},
	ARes: {ares210, ares220, ares231},
	RReq: {rreq210, rreq220, rreq231},
	RRes: {rres210, rres220, rres231},
	PReq: {preq210, preq210, preq231},
	PRes: {pres210, pres210, pres231},
	Erro: {erro210, erro210, erro210},
	CReq: {creq210, creq220, creq231},
	CRes: {cres210, cres210, cres231},
	OReq: {V231: oreq231},
	ORes: {V231: ores231},
}
