package message

// messageRows are the rows of all messages.
var messageRows = [typeCount]versions{
	AReq: {V210: areq210, V220: areq220, V231: areq231},
	ARes: {V210: ares210, V220: ares220, V231: ares231},
	RReq: {V210: rreq210, V220: rreq220, V231: rreq231},
	RRes: {V210: rres210, V220: rres220, V231: rres231},
	PReq: {V210: preq210, V220: preq210, V231: preq231},
	PRes: {V210: pres210, V220: pres210, V231: pres231},
	Erro: {V210: erro210, V220: erro210, V231: erro210},
	CReq: {V210: creq210, V220: creq220, V231: creq231},
	CRes: {V210: cres210, V220: cres210, V231: cres231},
	OReq: {V231: oreq231},
	ORes: {V231: ores231},
}
