package sandbox

import "github.com/openthreeds/threeds/sandbox/internal/peer"

// acsRefNumber is acsReferenceNumber.
const acsRefNumber = "3DS_LOA_ACS_SNDB_020301_00001"

// The protocol versions that all directory servers speak.
const (
	v210 = peer.V210
	v220 = peer.V220
	v231 = peer.V231
)
