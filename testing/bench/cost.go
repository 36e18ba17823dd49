package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A way is how an authentication is made.
type way string

const (
	compatible way = "/preauth and /auth"
	without    way = "POST /authentications without a browser"
	inBrowser  way = "POST /authentications in a browser"
)

// costOfAuthentications measures the processor time of POST /authentications against that of
// /preauth and /auth. The ways take turns, since what else the machine does changes meanwhile.
func costOfAuthentications(ctx context.Context, b *bench) (rows []row, err error) {
	w, err := newTestbedOf(ctx, b, setup{versions: "2.1.0, 2.2.0", limits: manyConns + allCome})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	ways := []way{compatible, without, inBrowser}
	ratios := make(map[way][]float64)
	costs := make(map[way][]float64) // µs
	for turn := range b.plan.costTurns + 1 {
		each := make(map[way]float64)
		for i := range ways {
			way := ways[(i+turn)%len(ways)]
			used, err := w.burstOf(ctx, Burst{Way: way, Count: b.plan.costBurst, Conns: 32})
			if err != nil {
				return nil, err
			}
			each[way] = float64(used.Microseconds()) / float64(b.plan.costBurst)
		}
		if turn == 0 {
			continue // connections were made, and memory grew
		}
		b.printf("turn %d: %.0f µs, %.0f µs, %.0f µs", turn, each[compatible], each[without], each[inBrowser])
		for _, way := range ways {
			costs[way] = append(costs[way], each[way])
			ratios[way] = append(ratios[way], each[way]/each[compatible])
		}
	}
	for _, way := range ways[1:] {
		ratio := median(ratios[way])
		rows = append(rows, row{
			what: fmt.Sprintf("%s, ratio to %s", way, compatible), measured: fmt.Sprintf("%.2f", ratio), good: ratio <= 1.15,
			note: fmt.Sprintf("turns %.2f to %.2f; %.0f µs to %.0f µs of a processor", percentile(ratios[way], 0),
				percentile(ratios[way], 1), median(costs[way]), median(costs[compatible])),
		})
	}
	rows[0].target = "<= 1.15" // the other has steps that the compatible way leaves to the back end
	return rows, nil
}

// burstOf returns what the program under test used of a processor for a burst.
func (w *testbed) burstOf(ctx context.Context, burst Burst) (time.Duration, error) {
	before, err := processorTimeOf(w.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := w.ask(ctx, "Load.Authentications", burst, new(int)); err != nil {
		return 0, err
	}
	after, err := processorTimeOf(w.cmd.Process.Pid)
	return after - before, err
}

// A Burst is authentications made one way, as fast as they are taken.
type Burst struct {
	Way          way
	Count, Conns int
}

// Authentications makes a burst of authentications, each to its end.
func (l *Load) Authentications(b Burst, _ *int) error {
	once := map[way]func() error{compatible: l.withPreauth, without: l.withoutBrowser, inBrowser: l.inBrowser}[b.Way]
	var faults faults
	closedLoop(b.Conns, b.Count, func(int) { faults.note(once()) })
	return faults.err()
}

// withoutItsCard are the elements of [aBrowser] after card number and id.
var withoutItsCard = aBrowser[strings.Index(aBrowser, `"threeDSCompInd"`):]

// merchantInitiated is the same payment without a browser.
var merchantInitiated = strings.NewReplacer(
	`"threeDSCompInd":"U"`, `"threeRIInd":"11"`,
	between(withoutItsCard, `"browserAcceptHeader"`, `"cardholderName"`), "",
).Replace(withoutItsCard)

// fromBackEnd are the elements of a payment in a browser that its back end tells.
var fromBackEnd = strings.NewReplacer(
	`"threeDSCompInd":"U",`, "",
	between(withoutItsCard, `"browserAcceptHeader"`, `"cardholderName"`), "",
).Replace(withoutItsCard)

// between is the part of a text from one mark to the next.
func between(text, from, to string) string {
	return text[strings.Index(text, from):strings.Index(text, to)]
}

const fromThePage = `{"data":{"browserJavaEnabled":"false","browserLanguage":"en-GB","browserColorDepth":"24",` +
	`"browserScreenHeight":"1080","browserScreenWidth":"1920","browserTZ":"-60","challengeWindowSize":"05"}}`

// withPreauth authenticates the way of the compatible API.
func (l *Load) withPreauth() error {
	var id string
	ask := request(l.api.address, "/preauth", l.key, []byte(`{"acctNumber":"`+aCard+`"}`))
	if err := l.api.do(ask, read(200, "threeDSServerTransID", &id)); err != nil {
		return fmt.Errorf("/preauth: %w", err)
	}
	body := fmt.Appendf(nil, `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"03","messageCategory":"01","acctNumber":"%s",`+
		`"threeDSServerTransID":"%s",%s`, aCard, id, merchantInitiated)
	var status string
	if err := l.api.do(request(l.api.address, "/auth", l.key, body), read(200, "transStatus", &status)); err != nil {
		return fmt.Errorf("/auth: %w", err)
	}
	return nil
}

// withoutBrowser authenticates with one request.
func (l *Load) withoutBrowser() error {
	body := fmt.Appendf(nil, `{"messageVersion":"2.2.0","deviceChannel":"03","messageCategory":"01","acctNumber":"%s",%s`, aCard, merchantInitiated)
	var result string
	if err := l.api.do(request(l.api.address, "/authentications", l.key, body), read(201, "result", &result)); err != nil {
		return fmt.Errorf("POST /authentications: %w", err)
	}
	return nil
}

// inBrowser authenticates as back end and page do together.
func (l *Load) inBrowser() error {
	body := fmt.Appendf(nil, `{"messageVersion":"2.2.0","acctNumber":"%s",%s`, aCard, fromBackEnd)
	var id, token string
	err := l.api.do(request(l.api.address, "/authentications", l.key, body), func(status int, body []byte) error {
		return errors.Join(read(201, "id", &id)(status, body), read(201, "token", &token)(status, body))
	})
	if err != nil {
		return fmt.Errorf("POST /authentications: %w", err)
	}
	page := "Host: " + l.browser.address + "\r\nAuthorization: Bearer " + token + "\r\nAccept: */*\r\nUser-Agent: Mozilla/5.0\r\n" +
		"Threeds-Binding: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n"
	begin := fmt.Appendf(nil, "POST /a/begin HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", page, len(fromThePage), fromThePage)
	var step string
	if err := l.browser.do(begin, read(200, "step", &step)); err != nil {
		return fmt.Errorf("the page's data: %w", err)
	}
	for range 10 { // a version of the state each
		if step == "end" {
			break
		}
		state := fmt.Appendf(nil, "GET /a/state?wait=20&after=2 HTTP/1.1\r\n%s\r\n", page)
		if err := l.browser.do(state, read(200, "step", &step)); err != nil {
			return fmt.Errorf("the page's state: %w", err)
		}
	}
	var result string
	get := fmt.Appendf(nil, "GET /authentications/%s HTTP/1.1\r\nHost: %s\r\nAPIKey: %s\r\n\r\n", id, l.api.address, l.key)
	if err := l.api.do(get, read(200, "result", &result)); err != nil {
		return fmt.Errorf("GET /authentications/ID: %w", err)
	}
	return nil
}

// read wants an answer of a status with a member, and sets value to that.
func read(want int, name string, value *string) func(int, []byte) error {
	return func(status int, body []byte) error {
		if *value = string(member(body, name)); status != want || *value == "" {
			return fmt.Errorf("status %d without %s: %.300s", status, name, body)
		}
		return nil
	}
}
