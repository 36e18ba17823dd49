// Package shop is a demonstration merchant: one product, and two ways to pay for it with EMV 3-D Secure. Set the fields
// of a [Shop] and call [Shop.Start], or serve [Shop.Handler].
//
// The first page takes the short way: POST /authentications, threeds.js in the browser, and at the end a signed webhook
// at [HookPath] or, if none comes, GET /authentications/ID. That is pay.go and webhook.go.
//
// The page at /steps makes each step itself:
//
//	browser ──────────────── shop back end ──────── 3DS server
//	  │  card, browser data →   │  /preauth →          │
//	  │  3DS Method (iframe) → ACS → notice            │
//	  │                         │  /auth (AReq) →      │
//	  │  challenge (iframe) → ACS → notice             │
//	  │                         │  /postauth →         │
//	  │  ← the ending, and every message that passed   │
//
// A card that is not enrolled falls back to 3-D Secure 1.0.2: /enrolled takes the
// place of /preauth and /auth, PAReq and PARes pass through the browser, and
// /check says what the PARes is worth.
//
// It is made to be read and to be played with. It is not a shop: nothing is
// sold or charged, checkouts live in memory and are gone at exit, and it serves
// only names of the loopback interface. It is a merchant, so it calls the server
// with package client and shares no other code with it.
package shop
