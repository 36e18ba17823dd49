package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// aBrowser is the AReq of a payment in a browser, as requestors send it: card
// number and threeDSServerTransID to be filled in.
const aBrowser = `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01",` +
	`"acctNumber":"%s","threeDSServerTransID":"%s","threeDSCompInd":"U","cardExpiryDate":"3012","acctType":"02",` +
	`"threeDSRequestorAuthenticationInd":"01","threeDSRequestorChallengeInd":"01","threeDSRequestorURL":"https://shop.example/about",` +
	`"threeDSRequestorAuthenticationInfo":{"threeDSReqAuthMethod":"02","threeDSReqAuthTimestamp":"202611201155","threeDSReqAuthData":"login"},` +
	`"acctInfo":{"chAccAgeInd":"05","chAccDate":"20200101","chAccChangeInd":"04","chAccChange":"20260101","chAccPwChangeInd":"03",` +
	`"chAccPwChange":"20260801","nbPurchaseAccount":"12","txnActivityDay":"1","txnActivityYear":"31","provisionAttemptsDay":"0",` +
	`"shipAddressUsage":"20250101","shipAddressUsageInd":"04","shipNameIndicator":"01","suspiciousAccActivity":"01",` +
	`"paymentAccAge":"20200101","paymentAccInd":"05"},"acctID":"customer-000000017",` +
	`"acquirerBIN":"400000","acquirerMerchantID":"M1234567","mcc":"5411","merchantCountryCode":"208","merchantName":"Example Shop",` +
	`"merchantRiskIndicator":{"shipIndicator":"01","deliveryTimeframe":"03","deliveryEmailAddress":"ann@example.com",` +
	`"reorderItemsInd":"01","preOrderPurchaseInd":"01"},` +
	`"purchaseAmount":"109900","purchaseCurrency":"978","purchaseExponent":"2","purchaseDate":"20261120120000","transType":"01",` +
	`"browserAcceptHeader":"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8","browserIP":"192.0.2.1",` +
	`"browserJavaEnabled":false,"browserJavascriptEnabled":true,"browserLanguage":"en-GB","browserColorDepth":"24",` +
	`"browserScreenHeight":"1080","browserScreenWidth":"1920","browserTZ":"-60",` +
	`"browserUserAgent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",` +
	`"notificationURL":"https://shop.example/3ds/done","cardholderName":"Ann Example","email":"ann@example.com",` +
	`"mobilePhone":{"cc":"45","subscriber":"12345678"},"billAddrCity":"Copenhagen","billAddrCountry":"208",` +
	`"billAddrLine1":"Example Street 1","billAddrPostCode":"1000","shipAddrCity":"Copenhagen","shipAddrCountry":"208",` +
	`"shipAddrLine1":"Example Street 1","shipAddrPostCode":"1000","addrMatch":"Y"}`

// aResult is the RReq of a challenge that was passed: the ids to be filled in.
const aResult = `{"messageType":"RReq","messageVersion":"2.2.0","messageCategory":"01","threeDSServerTransID":"%s",` +
	`"acsTransID":"%s","dsTransID":"%s","authenticationType":"02","authenticationMethod":"02","interactionCounter":"01",` +
	`"transStatus":"Y","eci":"05","authenticationValue":"AAABBCJZUwAAAAAAUFlTAAAAAAA="}`

// aCard is enrolled with [Directory].
const aCard = "4000001234567890"

// Authentications is how many to make, and how fast.
type Authentications struct {
	Count int
	Rate  float64 // per second
	Every int     // one in so many is followed by an exchange with the directory server itself; 0: none
	Dir   string  // a probe watches the disk of this directory; empty: no probe
}

// Authenticated is what Authentications came to. The time of an /auth goes from the first
// byte of the request to the answer.
type Authenticated struct {
	Added  Timed           // without the time that the directory server said it took
	Took   []time.Duration // the whole time
	Direct []time.Duration // of exchanges with the directory server itself, without its own time
}

// Authenticate makes authentications at a steady rate, each with an id that was
// fetched before.
func (l *Load) Authenticate(a Authentications, got *Authenticated) error {
	requests, err := l.prepare(a.Count)
	if err != nil {
		return err
	}
	p, err := startProbe(a.Dir)
	if err != nil {
		return err
	}
	starts, added := make([]time.Time, a.Count), make([]time.Duration, a.Count)
	got.Took = make([]time.Duration, a.Count)
	if a.Every > 0 {
		got.Direct = make([]time.Duration, a.Count/a.Every)
	}
	direct := request(l.direct.address, "/", "", fmt.Appendf(nil, aBrowser, aCard, "3a3a3a3a-0000-4000-8000-000000000000"))
	var faults faults
	begin := time.Now()
	got.Added.Late = openLoop(a.Count, a.Rate, func(i int) {
		var err error
		starts[i] = time.Now()
		got.Took[i], added[i], err = timed(l.api, requests[i])
		faults.note(err)
		if a.Every > 0 && i%a.Every == 0 && i/a.Every < len(got.Direct) {
			_, got.Direct[i/a.Every], err = timed(l.direct, direct)
			faults.note(err)
		}
	})
	got.Added.Wall = time.Since(begin)
	faults.note(p.stop())
	got.Added.Syncs = p.syncs()
	for i, start := range starts {
		got.Added.add(p, start, got.Took[i], added[i])
	}
	return faults.err()
}

// timed sends an AReq and returns how long the ARes took, with and without the
// time that the directory server noted in it.
func timed(p *pool, request []byte) (took, added time.Duration, err error) {
	start := time.Now()
	err = p.do(request, func(status int, body []byte) error {
		took = time.Since(start)
		own, err := strconv.Atoi(string(bytes.TrimPrefix(member(body, "dsReferenceNumber"), []byte(ownTime))))
		if status != 200 || err != nil {
			return errors.Join(err, fmt.Errorf("status %d: %.300s", status, body))
		}
		added = took - time.Duration(own)
		return nil
	})
	return took, added, err
}

// prepare fetches n ids and makes an /auth of each.
func (l *Load) prepare(n int) ([][]byte, error) {
	ask := request(l.api.address, "/preauth", l.key, []byte(`{"acctNumber":"`+aCard+`"}`))
	requests := make([][]byte, n)
	var faults faults
	closedLoop(16, n, func(i int) {
		faults.note(l.api.do(ask, func(status int, body []byte) error {
			id := member(body, "threeDSServerTransID")
			if status != 200 || id == nil {
				return fmt.Errorf("/preauth: status %d: %.300s", status, body)
			}
			requests[i] = request(l.api.address, "/auth", l.key, fmt.Appendf(nil, aBrowser, aCard, id))
			return nil
		}))
	})
	return requests, faults.err()
}

// Challenge makes n authentications that lead to a challenge, and the result of
// each for [Load.Deliver]. The directory server has been told to challenge.
func (l *Load) Challenge(n int, _ *int) error {
	var faults faults
	for len(l.rreqs) < n {
		requests, err := l.prepare(min(n-len(l.rreqs), 2000)) // more would take until the first ids have expired
		if err != nil {
			return err
		}
		made := make([][]byte, len(requests))
		closedLoop(32, len(requests), func(i int) {
			faults.note(l.api.do(requests[i], func(status int, body []byte) error {
				if status != 200 || string(member(body, "transStatus")) != "C" {
					return fmt.Errorf("/auth: status %d: %.300s", status, body)
				}
				made[i] = request(l.results.address, "/results", "", fmt.Appendf(nil, aResult,
					member(body, "threeDSServerTransID"), member(body, "acsTransID"), member(body, "dsTransID")))
				return nil
			}))
		})
		if err := faults.err(); err != nil {
			return err
		}
		l.rreqs = append(l.rreqs, made...)
	}
	return nil
}

// Deliveries is how many of the results to send, and how.
type Deliveries struct {
	Count int
	Rate  float64 // per second; 0: as fast as they are taken, on Conns connections
	Conns int
	Dir   string // a probe watches the disk of this directory; empty: no probe
}

// Deliver posts results, each once, and times them from the first byte of the request to
// the RRes.
func (l *Load) Deliver(d Deliveries, got *Timed) error {
	if d.Count > len(l.rreqs) {
		return fmt.Errorf("%d results are prepared, %d wanted", len(l.rreqs), d.Count)
	}
	requests := l.rreqs[:d.Count]
	l.rreqs = l.rreqs[d.Count:]
	if err := l.results.fill(max(d.Conns, 1)); err != nil {
		return err
	}
	p, err := startProbe(d.Dir)
	if err != nil {
		return err
	}
	starts, took := make([]time.Time, d.Count), make([]time.Duration, d.Count)
	var faults faults
	shoot := func(i int) {
		starts[i] = time.Now()
		faults.note(l.results.do(requests[i], func(status int, body []byte) error {
			took[i] = time.Since(starts[i])
			if status != 200 || string(member(body, "messageType")) != "RRes" {
				return fmt.Errorf("status %d: %.300s", status, body)
			}
			return nil
		}))
	}
	begin := time.Now()
	if d.Rate > 0 {
		got.Late = openLoop(d.Count, d.Rate, shoot)
	} else {
		closedLoop(d.Conns, d.Count, shoot)
	}
	got.Wall = time.Since(begin)
	faults.note(p.stop())
	got.Syncs = p.syncs()
	for i, start := range starts {
		got.add(p, start, took[i], took[i])
	}
	return faults.err()
}
