package conformance

// vo is the validation of OReq and of Erro.
var vo = []check{}
