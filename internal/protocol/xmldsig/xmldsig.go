// Package xmldsig verifies the XML signatures of PARes, and no others: one Signature next to the signed element, one
// Reference, and certificates in the document that chain to a root that the caller trusts. It touches no network and no
// clock.
//
// Documents are read by a strict parser into a small tree. Nothing but the bytes that
// were digested is known to be signed: Verify returns them, and the caller parses them
// again.
//
//	document ─ Parse ─► root ─ caller: shape ─► PARes, Signature ─ Verify ─► Canonical ─ Parse ─► values
//
// The caller checks which elements stand where in a message; Verify checks only that
// the two are neighbours. Whether a certificate was revoked is not checked.
package xmldsig
