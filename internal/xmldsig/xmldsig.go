// Package xmldsig verifies the XML signatures of PARes, and no others: one
// Signature beside the signed element, one Reference, certificates in the
// document that chain to a root that was given. It touches no network and no
// clock.
//
// Documents are read by a strict parser into a small tree. Only what was
// digested may be believed: Verify returns those bytes.
//
//	document ─ Parse ─► root ─ caller: shape ─► PARes, Signature ─ Verify ─► Canonical ─ Parse ─► values
//
// Which elements stand where in a message is the caller's business, but that the
// two are neighbours. Whether a certificate was revoked is not asked.
package xmldsig
