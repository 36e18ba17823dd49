// Package shop is a demonstration merchant: one product, one checkout, and the
// browser flow of EMV 3-D Secure as a merchant sees it.
//
//	browser ──────────────── shop back end ──────── 3DS server
//	  │  card, browser data →   │  /preauth →          │
//	  │  3DS Method (iframe) → ACS → notice            │
//	  │                         │  /auth (AReq) →      │
//	  │  challenge (iframe) → ACS → notice             │
//	  │                         │  /postauth →         │
//	  │  ← the ending, and every message that passed   │
//
// It is made to be read and to be played with. It is not a shop: nothing is
// sold or charged, checkouts live in memory and are gone at exit, and it serves
// only names of the loopback interface. It is a merchant, so it shares no code
// with the server that it talks to.
package shop
